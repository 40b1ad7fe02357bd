"""``supportgroup``: which permissions the group has, what its members may do, and what it refuses."""

from __future__ import annotations

from io import StringIO

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.management import CommandError, call_command
from django.db import connection
from django.urls import reverse

from django_redsess.permissions import rules
from tests.helpers.accounts import sign_in
from tests.helpers.admin_pages import LIST

pytestmark = pytest.mark.django_db

OF_SESSIONS = {"view_onlinesession", "end_onlinesession", "block_user", "view_popularitem"}


def run(*arguments: str, **options: int) -> str:
    out = StringIO()
    call_command("supportgroup", *arguments, stdout=out, **options)
    return out.getvalue()


def permissions(name: str = "Support") -> set[str]:
    return set(Group.objects.get(name=name).permissions.values_list("codename", flat=True))


def test_members_find_end_block_and_see_sign_ins_and_no_more() -> None:
    told = run()
    assert all(codename in told for codename in permissions())
    assert permissions() == {*OF_SESSIONS, "view_signin"}
    # The next step.
    assert "is_staff" in told
    sam, shopper = User.objects.create_user("sam", is_staff=True), User.objects.create_user("alice")
    superuser = User.objects.create_superuser("root")
    sam.groups.add(Group.objects.get(name="Support"))
    ours = rules()
    assert ours.may_see(sam)
    assert ours.may_end(sam)
    assert ours.may_block(sam, shopper)
    assert ours.may_see_sign_in(sam)
    assert not ours.may_block(sam, superuser)
    assert not ours.may_end_all(sam)
    assert not ours.may_see_data(sam)
    assert not ours.may_export(sam)
    assert not ours.may_export_sign_ins(sam)
    assert not sam.has_module_perms("auth")
    browser = sign_in(sam)
    signins = reverse("admin:redsess_history_signin_changelist")
    assert [browser.get(page).status_code for page in (LIST, f"{LIST}blocked/", signins)] == [200, 200, 200]
    assert browser.get(reverse("admin:auth_user_changelist")).status_code == 403


def test_a_group_that_is_there_gets_what_it_lacks_and_keeps_what_it_has() -> None:
    group = Group.objects.create(name="First line")
    group.permissions.set(Permission.objects.filter(codename__in=["view_user", "view_onlinesession"]))
    told = run("First line")
    assert permissions("First line") == {*OF_SESSIONS, "view_signin", "view_user"}
    assert "4 more permissions" in told
    assert "auth.view_user" in told
    assert "nothing has changed" in run("First line")
    assert permissions("First line") == {*OF_SESSIONS, "view_signin", "view_user"}
    assert Group.objects.count() == 1
    group.permissions.remove(Permission.objects.get(codename="block_user"))
    assert "1 more permission now" in run("First line")


def test_without_the_app_of_sign_ins_the_group_has_no_permission_of_it(settings) -> None:
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django_redsess.contrib.history"]
    assert "sign-ins" not in run()
    assert permissions() == OF_SESSIONS


def test_nothing_is_printed_where_none_is_wanted() -> None:
    assert run(verbosity=0) == ""
    assert "block_user" in permissions()


def test_before_migrate_the_error_says_what_to_do() -> None:
    Permission.objects.filter(codename="block_user").delete()
    with pytest.raises(CommandError, match=r"django_redsess\.block_user.*manage\.py migrate"):
        run()
    assert not Group.objects.exists()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE auth_permission RENAME TO elsewhere")
    with pytest.raises(CommandError, match=r"manage\.py migrate"):
        run()


@pytest.mark.parametrize("name", ["", "x" * 151])
def test_a_name_that_no_group_can_have_is_refused(name: str) -> None:
    with pytest.raises(CommandError):
        run(name)
    assert not Group.objects.exists()


def test_a_site_without_groups_is_told_so(settings) -> None:
    settings.INSTALLED_APPS = [
        *(app for app in settings.INSTALLED_APPS if app.startswith("django_redsess")),
        "django.contrib.contenttypes",
    ]
    with pytest.raises(CommandError, match=r"django\.contrib\.auth"):
        run()
