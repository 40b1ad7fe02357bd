"""What becomes of sessions when their users are deactivated, deleted, or get another password."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

import pytest
import redis as redis_py
from asgiref.sync import async_to_sync
from django.apps import apps
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.auth.tokens import default_token_generator
from django.contrib.sessions.models import Session
from django.db import connection, connections, models, transaction
from django.db.models.deletion import Collector
from django.db.models.signals import post_delete, post_save, pre_save
from django.http import HttpResponse
from django.test import AsyncClient, Client
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

from django_redsess import accounts, online
from django_redsess.backend import SessionStore
from django_redsess.signals import Ended, Reason, session_ended
from tests import accounts_site
from tests.accounts_site import NEW_PASSWORD

# What happens at a commit happens in none of the transactions that tests are run in otherwise.
pytestmark = [pytest.mark.django_db(transaction=True)]

DEACTIVATED, DELETED = "Your account was deactivated.", "Your account was deleted."
PASSWORD_CHANGED = "Your password was changed."
PASSWORD = "the first password"

AUTH_HASHERS = "django.contrib.auth.hashers"


@pytest.fixture(autouse=True)
def site(request: pytest.FixtureRequest, settings: Any) -> Any:
    """The site of accounts_site.py, in place of the shop; the settings, to change more of them."""
    if "partitions" in request.fixturenames:
        # Before anybody signs in: afterwards their number is fixed.
        request.getfixturevalue("partitions")
    settings.ROOT_URLCONF = "tests.accounts_site"
    return settings


@pytest.fixture
def alice() -> User:
    user: User = User.objects.create_user("alice", password=PASSWORD)
    return user


@pytest.fixture
def bob() -> User:
    user: User = User.objects.create_user("bob", password=PASSWORD)
    return user


@pytest.fixture
def admin() -> Client:
    """A browser in which an administrator is signed in."""
    return sign_in(User.objects.create_superuser("admin", password=PASSWORD))


@pytest.fixture
def told() -> Iterator[list[Ended]]:
    """The ends that were told, in order."""
    heard: list[Ended] = []

    def receive(signal: Any, sender: Any, **named: Any) -> None:
        heard.append(Ended(**named))

    session_ended.connect(receive)
    yield heard
    session_ended.disconnect(receive)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Return a function that says what happens, once, while a view is under way."""

    def set_meanwhile(action: Callable[[], object]) -> None:
        def once() -> None:
            accounts_site.meanwhile = accounts_site.nothing
            action()

        monkeypatch.setattr(accounts_site, "meanwhile", once)

    return set_meanwhile


def sign_in(user: User) -> Client:
    browser = Client()
    browser.force_login(user)
    return browser


def count(user: User | int) -> int:
    """How many sessions a user has, who may be deleted by now."""
    return online.count(user_ids=[str(user if isinstance(user, int) else user.pk)])


def sid_of(browser: Client) -> str:
    return SessionStore(browser.cookies["sessionid"].value).sid or ""


def name_in(browser: Client) -> str:
    """Who is signed in here."""
    return browser.get("/who/").content.decode().split("|")[0]


def told_to(browser: Client) -> tuple[str, str]:
    """What the header of the next answer says: the reason, and the text."""
    reason, _, text = browser.get("/who/").headers.get("X-Session-Ended", "").partition("; text*=UTF-8''")
    return reason, unquote(text)


def notes(redis: redis_py.Redis) -> list[bytes]:
    """What is noted of sessions that are gone."""
    return [redis.get(name) for name in redis.keys() if b":ended:" in name]


def is_gone(response: HttpResponse) -> bool:
    """Whether the answer takes the session cookie away."""
    cookie = response.cookies.get("sessionid")
    return cookie is not None and cookie.value == "" and cookie["max-age"] == 0


def in_a_thread(action: Callable[[], object]) -> None:
    """Run it in a thread of its own, and fail if it failed."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:
            failed.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert failed == []


# Deactivating.


def save(user: User, admin: Client) -> None:
    user.is_active = False
    user.save()


def save_the_field(user: User, admin: Client) -> None:
    user.is_active = False
    user.save(update_fields=["is_active"])


def asave(user: User, admin: Client) -> None:
    user.is_active = False
    asyncio.run(user.asave())


def save_one_that_was_read_in_part(user: User, admin: Client) -> None:
    part = User.objects.only("is_active").get(pk=user.pk)
    part.is_active = False
    part.save()


def in_the_admins_form(user: User, admin: Client) -> None:
    form = {"username": user.username, "date_joined_0": "2026-01-01", "date_joined_1": "00:00:00", "_save": "Save"}
    assert admin.post(f"/admin/auth/user/{user.pk}/change/", form).status_code == 302


DEACTIVATIONS = [save, save_the_field, asave, save_one_that_was_read_in_part, in_the_admins_form]


@pytest.mark.parametrize("way", DEACTIVATIONS, ids=lambda way: way.__name__)
def test_deactivating_a_user_ends_the_sessions_of_that_user_at_once(alice, bob, admin, partitions, way) -> None:
    browsers, other = [sign_in(alice), sign_in(alice)], sign_in(bob)
    way(alice, admin)
    assert not User.objects.get(pk=alice.pk).is_active
    assert (count(alice), count(bob)) == (0, 1)
    assert [told_to(each) for each in browsers] == [("invalidated", DEACTIVATED)] * 2
    assert name_in(other) == "bob"


def test_a_user_who_was_deactivated_reads_so_in_a_message(alice) -> None:
    browser = sign_in(alice)
    alice.is_active = False
    alice.save()
    assert browser.get("/who/").content.decode() == f"nobody|Your session was ended. {DEACTIVATED}"


def test_saving_a_user_who_is_inactive_already_ends_nothing(alice) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)
    sign_in(alice)
    alice.refresh_from_db()
    alice.save()
    alice.save(update_fields=["is_active"])
    assert count(alice) == 1


def test_activating_a_user_ends_nothing(alice) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)
    sign_in(alice)
    alice.is_active = True
    alice.save()
    assert count(alice) == 1


@pytest.mark.parametrize("fields", [None, ["first_name"], ["first_name", "last_login"]])
def test_saving_other_fields_ends_nothing(alice, fields: list[str] | None) -> None:
    browser = sign_in(alice)
    alice.first_name = "Alice"
    alice.save(update_fields=fields)
    assert name_in(browser) == "alice"


@pytest.mark.parametrize("field", ["first_name", "last_login"])
def test_saving_other_fields_by_name_takes_one_query(alice, django_assert_num_queries, field: str) -> None:
    with django_assert_num_queries(1):
        alice.save(update_fields=[field])


def test_saving_a_new_user_takes_one_query(django_assert_num_queries) -> None:
    with django_assert_num_queries(1):
        User(username="carol").save()


def test_saving_fields_by_name_that_are_watched_takes_one_more_query(alice, django_assert_num_queries) -> None:
    with django_assert_num_queries(2):
        alice.save(update_fields=["is_active", "password"])


# Deleting.


def delete(user: User, admin: Client) -> None:
    user.delete()


def adelete(user: User, admin: Client) -> None:
    asyncio.run(user.adelete())


def delete_a_queryset(user: User, admin: Client) -> None:
    User.objects.filter(pk=user.pk).delete()


def on_the_admins_page(user: User, admin: Client) -> None:
    assert admin.post(f"/admin/auth/user/{user.pk}/delete/", {"post": "yes"}).status_code == 302


def by_the_admins_action(user: User, admin: Client) -> None:
    form = {"action": "delete_selected", "_selected_action": [user.pk], "post": "yes"}
    assert admin.post("/admin/auth/user/", form).status_code == 302


DELETIONS = [delete, adelete, delete_a_queryset, on_the_admins_page, by_the_admins_action]


@pytest.mark.parametrize("way", DELETIONS, ids=lambda way: way.__name__)
def test_deleting_a_user_ends_the_sessions_of_that_user_at_once(alice, bob, admin, partitions, told, way) -> None:
    browsers, other, user_id = [sign_in(alice), sign_in(alice)], sign_in(bob), alice.pk
    way(alice, admin)
    assert not User.objects.filter(pk=user_id).exists()
    assert (count(user_id), count(bob)) == (0, 1)
    assert [(each.user_id, each.reason) for each in told] == [(str(user_id), Reason.INVALIDATED)] * 2
    assert [told_to(each) for each in browsers] == [("invalidated", DELETED)] * 2
    assert name_in(other) == "bob"


def test_deleting_several_users_ends_the_sessions_of_all_of_them(alice, bob, admin, partitions) -> None:
    for user in (alice, alice, bob):
        sign_in(user)
    User.objects.filter(username__in=["alice", "bob"]).delete()
    assert online.count() == 1
    assert name_in(admin) == "admin"


def test_rows_of_other_models_are_still_deleted_at_once() -> None:
    assert Collector(using="default").can_fast_delete(Session.objects.all())
    assert not Collector(using="default").can_fast_delete(User.objects.all())


# Another password.


def set_password(user: User, admin: Client) -> None:
    user.set_password(NEW_PASSWORD)
    user.save()


def set_password_and_save_the_field(user: User, admin: Client) -> None:
    user.set_password(NEW_PASSWORD)
    user.save(update_fields=["password"])


def set_password_and_asave(user: User, admin: Client) -> None:
    user.set_password(NEW_PASSWORD)
    asyncio.run(user.asave())


def in_the_admins_password_form(user: User, admin: Client) -> None:
    form = {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD, "usable_password": "true"}
    assert admin.post(f"/admin/auth/user/{user.pk}/password/", form).status_code == 302


NEW_PASSWORDS = [set_password, set_password_and_save_the_field, set_password_and_asave, in_the_admins_password_form]


@pytest.mark.parametrize("way", NEW_PASSWORDS, ids=lambda way: way.__name__)
def test_a_new_password_ends_the_sessions_of_its_user_at_once(alice, bob, admin, partitions, told, way) -> None:
    browsers, other = [sign_in(alice), sign_in(alice)], sign_in(bob)
    way(alice, admin)
    assert User.objects.get(pk=alice.pk).check_password(NEW_PASSWORD)
    assert (count(alice), count(bob)) == (0, 1)
    assert [(each.user_id, each.reason) for each in told] == [(str(alice.pk), Reason.INVALIDATED)] * 2
    assert [told_to(each) for each in browsers] == [("invalidated", PASSWORD_CHANGED)] * 2
    assert (name_in(other), name_in(admin)) == ("bob", "admin")


def test_taking_a_users_password_away_in_the_admin_ends_the_sessions_of_that_user(alice, admin) -> None:
    browser = sign_in(alice)
    response = admin.post(f"/admin/auth/user/{alice.pk}/password/", {"usable_password": "false", "unset-password": "x"})
    assert response.status_code == 302
    assert not User.objects.get(pk=alice.pk).has_usable_password()
    assert count(alice) == 0
    assert name_in(browser) == "nobody"


@pytest.mark.parametrize("atomic", [False, True], ids=["", "ATOMIC_REQUESTS"])
@pytest.mark.parametrize("page", ["/password-change/", "/admin/password_change/", "/admin/auth/user/%d/password/"])
def test_who_changes_the_own_password_stays_signed_in_there_and_nowhere_else(
    monkeypatch, partitions, page: str, atomic: bool
) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", atomic)
    boss = User.objects.create_superuser("boss", password=PASSWORD)
    browser, elsewhere = sign_in(boss), sign_in(boss)
    form = {"old_password": PASSWORD, "new_password1": NEW_PASSWORD, "new_password2": NEW_PASSWORD}
    form |= {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD, "usable_password": "true"}
    assert browser.post(page % boss.pk if "%" in page else page, form).status_code == 302
    assert name_in(browser) == "boss"
    assert count(boss) == 1
    assert told_to(elsewhere) == ("invalidated", PASSWORD_CHANGED)


def test_with_djangos_middleware_who_changes_the_own_password_stays_signed_in_too(alice, site) -> None:
    ours, djangos = "django_redsess.middleware", "django.contrib.sessions.middleware"
    site.MIDDLEWARE = [name.replace(f"{ours}.Session", f"{djangos}.Session") for name in site.MIDDLEWARE]
    browser = sign_in(alice)
    form = {"old_password": PASSWORD, "new_password1": NEW_PASSWORD, "new_password2": NEW_PASSWORD}
    assert browser.post("/password-change/", form).status_code == 302
    assert name_in(browser) == "alice"


@pytest.mark.parametrize(("page", "name"), [("reset", "nobody"), ("reset-and-sign-in", "alice")])
def test_a_password_that_is_reset_ends_all_sessions_but_the_new_one(alice, partitions, page: str, name: str) -> None:
    browsers, visitor = [sign_in(alice), sign_in(alice)], Client()
    user_id, token = urlsafe_base64_encode(force_bytes(alice.pk)), default_token_generator.make_token(alice)
    form_page = visitor.get(f"/{page}/{user_id}/{token}/")["Location"]
    form = {"new_password1": NEW_PASSWORD, "new_password2": NEW_PASSWORD}
    assert visitor.post(form_page, form).status_code == 302
    assert User.objects.get(pk=alice.pk).check_password(NEW_PASSWORD)
    assert name_in(visitor) == name
    assert count(alice) == (name == "alice")
    assert [told_to(each) for each in browsers] == [("invalidated", PASSWORD_CHANGED)] * 2


@pytest.mark.parametrize(("page", "name"), [("reset", "nobody"), ("reset-and-sign-in", "alice")])
def test_who_resets_the_password_of_the_user_who_is_signed_in_there_is_not_interrupted(
    alice, partitions, page: str, name: str
) -> None:
    browser, elsewhere = sign_in(alice), sign_in(alice)
    user_id, token = urlsafe_base64_encode(force_bytes(alice.pk)), default_token_generator.make_token(alice)
    form_page = browser.get(f"/{page}/{user_id}/{token}/")["Location"]
    assert browser.post(form_page, {"new_password1": NEW_PASSWORD, "new_password2": NEW_PASSWORD}).status_code == 302
    assert (name_in(browser), name_in(elsewhere)) == (name, "nobody")
    assert count(alice) == (name == "alice")


@pytest.mark.parametrize("atomic", [False, True], ids=["", "ATOMIC_REQUESTS"])
@pytest.mark.parametrize("way", accounts_site.WAYS)
def test_the_own_session_stays_whatever_key_it_gets(
    alice, bob, monkeypatch, partitions, told, way: str, atomic: bool
) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", atomic)
    browser, elsewhere, other = sign_in(alice), sign_in(alice), sign_in(bob)
    sid = sid_of(elsewhere)
    response = browser.get(f"/password/{way}/")
    assert (response.status_code, response.content) == (200, b"done")
    assert count(alice) == 1
    assert [each.sid for each in told] == [sid]
    assert (name_in(browser), name_in(elsewhere), name_in(other)) == ("alice", "nobody", "bob")
    assert [each.sid for each in online.of_user(alice)] == [sid_of(browser)]


def test_the_own_session_stays_where_a_view_is_asynchronous(alice, partitions) -> None:
    browser, elsewhere = AsyncClient(), sign_in(alice)
    browser.force_login(alice)
    assert async_to_sync(browser.get)("/async/password/").content == b"done"
    assert async_to_sync(browser.get)("/who/").content == b"alice"
    assert count(alice) == 1
    assert told_to(elsewhere) == ("invalidated", PASSWORD_CHANGED)


def test_a_session_that_a_view_forgets_is_not_ended_but_no_longer_fits(alice, partitions) -> None:
    browser, elsewhere = sign_in(alice), sign_in(alice)
    response = browser.get("/password-only/")
    assert (response.status_code, response.content) == (200, b"done")
    assert [each.sid for each in online.of_user(alice)] == [sid_of(browser)]
    assert SessionStore(browser.cookies["sessionid"].value)["colour"] == "red"
    assert (name_in(browser), name_in(elsewhere)) == ("nobody", "nobody")


def test_a_password_that_is_hashed_anew_ends_other_sessions_and_does_not_say_it_was_changed(alice, site) -> None:
    elsewhere, browser = sign_in(alice), Client()
    site.PASSWORD_HASHERS = [f"{AUTH_HASHERS}.PBKDF2PasswordHasher", f"{AUTH_HASHERS}.MD5PasswordHasher"]
    assert browser.post("/login/", {"username": "alice", "password": PASSWORD}).status_code == 302
    assert User.objects.get(pk=alice.pk).password.startswith("pbkdf2_sha256$")
    assert [each.sid for each in online.of_user(alice)] == [sid_of(browser)]
    assert told_to(elsewhere) == ("", "")
    assert (name_in(browser), name_in(elsewhere)) == ("alice", "nobody")


# When.


CHANGES: list[Callable[[User, Any], None]] = [save, delete, set_password]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_nothing_ends_before_the_commit(alice, change) -> None:
    sign_in(alice)
    user_id = alice.pk
    with transaction.atomic():
        with transaction.atomic():
            change(alice, None)
        assert count(user_id) == 1
    assert count(user_id) == 0


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_nothing_ends_where_the_transaction_is_rolled_back(alice, told, change) -> None:
    browser, user_id = sign_in(alice), alice.pk
    with transaction.atomic():
        change(alice, None)
        transaction.set_rollback(True)
    with transaction.atomic():
        with transaction.atomic():
            change(User.objects.get(pk=user_id), None)
            transaction.set_rollback(True)
        User.objects.filter(pk=user_id).update(first_name="Alice")
    assert (count(user_id), told) == (1, [])
    assert name_in(browser) == "alice"


def test_nothing_is_kept_after_a_request(alice) -> None:
    browser = sign_in(alice)
    assert browser.get("/password/cycles_after/").status_code == 200
    assert count(alice) == 1
    alice.set_password("another")
    alice.save()
    assert count(alice) == 0


def test_a_save_in_another_thread_keeps_nothing_of_the_request_that_is_under_way(alice, meanwhile) -> None:
    browser = sign_in(alice)
    meanwhile(lambda: in_a_thread(lambda: set_password(User.objects.get(pk=alice.pk), browser)))
    assert browser.get("/waits/").content == b"done"
    assert count(alice) == 0
    assert told_to(browser) == ("invalidated", PASSWORD_CHANGED)


@pytest.mark.parametrize("where", [in_a_thread, lambda action: action()], ids=["another thread", "the same thread"])
def test_of_two_requests_at_once_each_keeps_its_own_session(alice, bob, meanwhile, where) -> None:
    here, there = [sign_in(alice), sign_in(alice)], [sign_in(bob), sign_in(bob)]
    meanwhile(lambda: where(lambda: there[0].get("/password/cycles_after/")))
    # The other one comes between this one's save, and the end of this one.
    assert here[0].get("/password/keeps_the_key/").content == b"done"
    assert [name_in(each) for each in here + there] == ["alice", "nobody", "bob", "nobody"]


def test_a_request_of_another_user_does_not_keep_that_users_session(alice, bob, partitions) -> None:
    browser = sign_in(alice)
    sign_in(bob)
    assert browser.get("/another/bob/password/").content == b"done"
    assert (count(alice), count(bob)) == (1, 0)


# The own account.


@pytest.mark.parametrize("cycle", ["", "?cycle"])
@pytest.mark.parametrize("then", ["does_nothing", "leaves_a_message", "signs_out"])
@pytest.mark.parametrize("closing", ["deactivate", "delete"])
def test_who_closes_the_own_account_is_answered_and_signed_out_everywhere(
    alice, partitions, told, closing: str, then: str, cycle: str
) -> None:
    browser, elsewhere, user_id = sign_in(alice), sign_in(alice), alice.pk
    response = browser.get(f"/close/{closing}/{then}/{cycle}")
    assert (response.status_code, response.content) == (200, b"closed")
    assert is_gone(response)
    assert count(user_id) == 0
    assert [(each.user_id, each.reason in ("invalidated", "logout")) for each in told] == [(str(user_id), True)] * 2
    assert told_to(elsewhere) == ("invalidated", DEACTIVATED if closing == "deactivate" else DELETED)
    assert browser.get("/who/").content.decode() == "nobody" + "|Good bye." * (then == "leaves_a_message")


@pytest.mark.parametrize("then", ["does_nothing", "leaves_a_message", "signs_out"])
@pytest.mark.parametrize("closing", ["deactivate", "delete"])
def test_who_closes_the_own_account_in_an_asynchronous_view_is_signed_out_everywhere(
    alice, partitions, closing: str, then: str
) -> None:
    browser, elsewhere, user_id = AsyncClient(), sign_in(alice), alice.pk
    browser.force_login(alice)
    response = async_to_sync(browser.get)(f"/async/close/{closing}/{then}/")
    assert (response.status_code, response.content) == (200, b"closed")
    assert is_gone(response)
    assert count(user_id) == 0
    assert told_to(elsewhere)[0] == "invalidated"


@pytest.mark.parametrize("closing", ["deactivate", "delete"])
def test_who_closes_the_own_account_in_a_transaction_is_signed_out_everywhere(alice, monkeypatch, closing) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    browser, user_id = sign_in(alice), alice.pk
    sign_in(alice)
    response = browser.get(f"/close/{closing}/leaves_a_message/?cycle")
    assert (response.status_code, count(user_id)) == (200, 0)
    assert is_gone(response)
    assert browser.get("/who/").content == b"nobody|Good bye."


def test_a_message_that_is_kept_in_the_session_is_read_after_the_account_was_closed(alice, site) -> None:
    site.MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"
    browser = sign_in(alice)
    assert browser.get("/close/deactivate/leaves_a_message/").status_code == 200
    assert count(alice) == 0
    assert browser.get("/who/").content == b"nobody|Good bye."


def test_a_view_may_use_the_session_after_it_closed_the_account(alice) -> None:
    browser = sign_in(alice)
    assert browser.get("/close/delete/writes/").status_code == 200
    assert online.count() == 0
    assert name_in(browser) == "nobody"


def test_a_session_whose_user_id_is_a_number_ends_with_its_account_too(alice) -> None:
    browser = sign_in(alice)
    session = SessionStore(browser.cookies["sessionid"].value)
    session[SESSION_KEY] = alice.pk
    session.save()
    assert name_in(browser) == "alice"
    response = browser.get("/close/deactivate/does_nothing/?cycle")
    assert (response.status_code, is_gone(response)) == (200, True)
    assert count(alice) == 0


@pytest.mark.parametrize("storage", ["fallback.FallbackStorage", "session.SessionStorage"])
@pytest.mark.parametrize("way", [in_the_admins_form, on_the_admins_page, by_the_admins_action])
def test_an_administrator_who_closes_the_own_account_is_signed_out_everywhere(
    partitions, site, way, storage: str
) -> None:
    site.MESSAGE_STORAGE = f"django.contrib.messages.storage.{storage}"
    boss = User.objects.create_superuser("boss", password=PASSWORD)
    browser, elsewhere, user_id = sign_in(boss), sign_in(boss), boss.pk
    way(boss, browser)
    assert count(user_id) == 0
    assert told_to(elsewhere)[0] == "invalidated"
    content = browser.get("/who/").content.decode()
    assert content.startswith("nobody|")
    assert "successfully" in content.lower()


# Switches.


SWITCHES: dict[str, Callable[[User, Any], None]] = {
    "END_ON_DEACTIVATION": save,
    "END_ON_DELETION": delete,
    "END_ON_PASSWORD_CHANGE": set_password,
}


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_switch_that_is_off_keeps_the_sessions_and_leaves_others_alone(alice, site, switch: str) -> None:
    site.REDSESS = {**site.REDSESS, switch: False}
    for name, change in SWITCHES.items():
        user = User.objects.create_user(f"user of {name}", password=PASSWORD)
        user_id = user.pk
        sign_in(user)
        change(user, None)
        assert count(user_id) == (name == switch)


def test_with_the_switches_off_nothing_is_asked_of_the_database_or_of_redis(
    alice, site, commands, django_assert_num_queries
) -> None:
    site.REDSESS = {**site.REDSESS, "END_ON_DEACTIVATION": False, "END_ON_PASSWORD_CHANGE": False}
    commands()
    alice.is_active = False
    alice.set_password(NEW_PASSWORD)
    with django_assert_num_queries(1):
        alice.save()
    assert "evalsha" not in commands()


@pytest.mark.parametrize(
    ("switch", "field"), [("END_ON_DEACTIVATION", "is_active"), ("END_ON_PASSWORD_CHANGE", "password")]
)
def test_a_field_whose_switch_is_off_is_saved_with_one_query(
    alice, site, django_assert_num_queries, switch: str, field: str
) -> None:
    site.REDSESS = {**site.REDSESS, switch: False}
    with django_assert_num_queries(1):
        alice.save(update_fields=[field])


# Proxies of the user model, and models that inherit from it.


@pytest.fixture
def defined() -> Iterator[Callable[..., Any]]:
    """Return a function that defines a model, as the shop's, whose signals are received until the end of the test."""
    made: list[Any] = []

    def define(name: str, **attributes: Any) -> Any:
        model = type(name, (User,), {"__module__": __name__, **attributes})
        made.append(model)
        if not model._meta.proxy:
            with connection.schema_editor() as editor:
                editor.create_model(model)
        accounts.receive_signals()
        return model

    yield define
    for model in made:
        for signal in (pre_save, post_save, post_delete):
            assert signal.disconnect(sender=model, dispatch_uid="django_redsess")
        del apps.all_models["shop"][model._meta.model_name]
        apps.clear_cache()
        if not model._meta.proxy:
            delattr(User, model._meta.model_name)
            with connection.schema_editor() as editor:
                editor.delete_model(model)


def a_proxy(defined: Callable[..., Any]) -> Any:
    return defined("Customer", Meta=type("Meta", (), {"app_label": "shop", "proxy": True}))


def a_child(defined: Callable[..., Any]) -> Any:
    Meta = type("Meta", (), {"app_label": "shop"})  # noqa: N806
    return defined("Member", Meta=Meta, town=models.TextField(default=""))


@pytest.mark.parametrize("kind", [a_proxy, a_child], ids=["a proxy", "a child"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_models_that_stand_for_users_are_seen(defined, told, bob, kind, change) -> None:
    user = kind(defined).objects.create_user("carol", password=PASSWORD)
    user_id, browser = user.pk, sign_in(user)
    sign_in(bob)
    assert count(user_id) == 1
    change(user, None)
    assert (count(user_id), count(bob)) == (0, 1)
    assert [each.user_id for each in told] == [str(user_id)]
    assert told_to(browser)[0] == "invalidated"


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_child_with_a_primary_key_of_its_own_ends_the_sessions_of_its_user(defined, alice, change) -> None:
    member = defined(
        "Member",
        Meta=type("Meta", (), {"app_label": "shop"}),
        number=models.BigAutoField(primary_key=True),
        user=models.OneToOneField(User, models.CASCADE, parent_link=True),
    )
    # Another user has the member's number.
    carol = member(number=alice.pk, username="carol")
    carol.save()
    assert carol.pk == alice.pk != carol.id
    sign_in(User.objects.get(username="carol"))
    sign_in(alice)
    user_id = carol.id
    change(carol, None)
    assert (count(user_id), count(alice)) == (0, 1)


# What sends no signals, and logout_everywhere().


def test_an_update_of_the_queryset_is_unseen_until_somebody_calls_logout_everywhere(alice, bob, partitions) -> None:
    for user in (alice, alice, bob):
        sign_in(user)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert count(alice) == 2
    assert accounts.logout_everywhere(alice) == 2
    assert (count(alice), count(bob)) == (0, 1)
    assert accounts.logout_everywhere(alice) == 0


def test_logout_everywhere_keeps_the_session_it_is_told_to(alice, partitions) -> None:
    browsers = [sign_in(alice) for _ in range(3)]
    assert accounts.logout_everywhere(alice, keep=sid_of(browsers[1])) == 2
    assert [name_in(each) for each in browsers] == ["nobody", "alice", "nobody"]


def test_a_view_may_end_all_sessions_but_its_own(alice, partitions) -> None:
    browser, elsewhere = sign_in(alice), sign_in(alice)
    assert browser.get("/ends-all-but-this/").content == b"1"
    assert (name_in(browser), name_in(elsewhere)) == ("alice", "nobody")


@pytest.mark.parametrize(("client", "page"), [(Client, "/ends-all/"), (AsyncClient, "/async/ends-all/")])
def test_a_view_that_ends_all_sessions_of_its_user_goes_on_as_a_guests(alice, partitions, client, page: str) -> None:
    browser, elsewhere = client(), sign_in(alice)
    browser.force_login(alice)
    get = async_to_sync(browser.get) if client is AsyncClient else browser.get
    response = get(page)
    assert (response.status_code, response.content) == (200, b"2")
    assert is_gone(response)
    assert count(alice) == 0
    assert name_in(elsewhere) == "nobody"


def test_a_view_that_ends_all_sessions_of_another_user_keeps_its_own(alice, bob, admin, meanwhile) -> None:
    browser = sign_in(alice)
    sign_in(bob)
    meanwhile(lambda: accounts.logout_everywhere(bob))
    assert browser.get("/waits/").content == b"done"
    assert (name_in(browser), count(bob)) == ("alice", 0)


def test_the_reason_of_logout_everywhere_is_read_by_the_user(alice, partitions) -> None:
    browser, other = sign_in(alice), sign_in(alice)
    accounts.logout_everywhere(alice, reason="You moved. Grüße")
    assert told_to(other) == ("invalidated", "You moved. Grüße")
    assert browser.get("/who/").content.decode() == "nobody|Your session was ended. You moved. Grüße"


def test_without_a_reason_logout_everywhere_tells_the_user_nothing(alice, redis, partitions) -> None:
    browser = sign_in(alice)
    accounts.logout_everywhere(alice)
    assert [note for note in notes(redis) if note.startswith(b"invalidated")] == []
    response = browser.get("/who/")
    assert (response.content, "X-Session-Ended" in response) == (b"nobody", False)


def test_a_reason_above_200_characters_is_refused_and_nothing_ends(alice) -> None:
    sign_in(alice)
    with pytest.raises(ValueError, match="200"):
        accounts.logout_everywhere(alice, reason="x" * 201)
    assert count(alice) == 1
    assert accounts.logout_everywhere(alice, reason="x" * 200) == 1


def test_alogout_everywhere_does_the_same(alice, partitions) -> None:
    browsers = [sign_in(alice) for _ in range(3)]
    kept = sid_of(browsers[1])
    assert asyncio.run(accounts.alogout_everywhere(alice, keep=kept, reason="Bye.")) == 2
    assert [each.sid for each in online.of_user(alice)] == [kept]
    assert told_to(browsers[0]) == ("invalidated", "Bye.")


@pytest.mark.parametrize("keep", [False, True])
def test_logout_everywhere_is_told_as_invalidated(alice, told, keep: bool) -> None:
    browsers = [sign_in(alice), sign_in(alice)]
    accounts.logout_everywhere(alice, keep=sid_of(browsers[0]) if keep else None)
    assert [(each.user_id, each.reason) for each in told] == [(str(alice.pk), Reason.INVALIDATED)] * (2 - keep)


def add_sessions(user: User, how_many: int, new_session: Callable[..., SessionStore]) -> None:
    for _ in range(how_many):
        new_session(str(user.pk), **{HASH_SESSION_KEY: user.get_session_auth_hash()})


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_more_sessions_than_one_call_ends_all_end(alice, new_session, partitions, told, change) -> None:
    add_sessions(alice, 600, new_session)
    user_id = alice.pk
    assert count(user_id) == 600
    change(alice, None)
    assert (count(user_id), len({each.sid for each in told})) == (0, 600)


def test_logout_everywhere_ends_more_sessions_than_one_call_does_but_one(alice, new_session, partitions) -> None:
    add_sessions(alice, 600, new_session)
    kept = sid_of(sign_in(alice))
    assert accounts.logout_everywhere(alice, keep=kept) == 600
    assert [each.sid for each in online.of_user(alice)] == [kept]


def test_a_user_who_was_deleted_is_named_by_the_primary_key_there_was(alice, site) -> None:
    site.REDSESS = {**site.REDSESS, "END_ON_DELETION": False}
    user_id, browser = alice.pk, sign_in(alice)
    alice.delete()
    with pytest.raises(ValueError, match="no primary key"):
        accounts.logout_everywhere(alice)
    assert accounts.logout_everywhere(User(pk=user_id)) == 1
    assert name_in(browser) == "nobody"
