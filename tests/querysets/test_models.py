"""The models without tables, as migrations and permissions know them."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission
from django.core.management import call_command

pytestmark = pytest.mark.unit


def test_a_project_has_no_migration_to_make(db, capsys) -> None:
    call_command("makemigrations", check=True, dry_run=True)
    assert capsys.readouterr().out == "No changes detected\n"


def test_permissions_are_there_to_be_given(db) -> None:
    names = set(Permission.objects.filter(content_type__app_label="django_redsess").values_list("codename", flat=True))
    of_sessions = {"end_onlinesession", "end_all_onlinesession", "export_onlinesession", "view_session_data"}
    of_items = {"reset_popularitem"}
    assert names == {"view_onlinesession", "view_popularitem", *of_sessions, *of_items}
