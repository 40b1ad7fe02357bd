"""The models without tables, as migrations, permissions, forms and dumps know them."""

import json

import pytest
from django.contrib.auth.models import Permission
from django.core.management import call_command

from django_redsess.models import PopularItem
from django_redsess.querysets import item_of, key_of
from tests.helpers.items import STRANGE

pytestmark = pytest.mark.unit


def test_a_project_has_no_migration_to_make(db, capsys) -> None:
    call_command("makemigrations", check=True, dry_run=True)
    assert capsys.readouterr().out == "No changes detected\n"


def test_permissions_are_there_to_be_given(db) -> None:
    names = set(Permission.objects.filter(content_type__app_label="django_redsess").values_list("codename", flat=True))
    of_sessions = {
        "end_onlinesession",
        "end_all_onlinesession",
        "export_onlinesession",
        "view_session_data",
        "block_user",
    }
    of_items = {"reset_popularitem"}
    assert names == {"view_onlinesession", "view_popularitem", *of_sessions, *of_items}


def test_dumpdata_does_not_see_the_models(db, capsys) -> None:
    for everything in (False, True):
        call_command("dumpdata", all=everything)
        models = {row["model"] for row in json.loads(capsys.readouterr().out)}
        assert not {"django_redsess.onlinesession", "django_redsess.popularitem"} & models


def test_a_key_passes_a_form_and_stands_for_one_item() -> None:
    assert [item_of(key_of(item)) for item in STRANGE] == STRANGE
    assert not set("\0\r\n") & set("".join(map(key_of, STRANGE)))


def test_the_key_of_an_ordinary_item_is_the_item() -> None:
    assert [key_of(item) for item in ("kite", "a/b", "%00", "_5F", "é")] == ["kite", "a/b", "%00", "_5F", "é"]


def test_what_cannot_be_seen_is_shown_by_a_picture_of_it() -> None:
    assert str(PopularItem(item="a\0b\nc")) == "a␀b␊c"
    assert str(PopularItem(item="<b>kite")) == "<b>kite"
