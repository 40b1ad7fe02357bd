"""The server can't be reached when something happens to an account: that happens, and somebody is told what is left."""

import logging
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client

from benchmarks.fill import fill
from django_redsess import accounts
from django_redsess.accounts import reauthentication
from django_redsess.exceptions import SessionStoreUnavailable
from tests.helpers.accounts import count, delete, save, set_password
from tests.helpers.outages import end_outage, lines_of
from tests.helpers.proxy import Proxy
from tests.helpers.site.accounts import NEW_PASSWORD
from tests.helpers.store import make_older, scripts
from tests.helpers.visitors import Browser, assert_unavailable

# What happens at a commit happens in none of the transactions that tests are run in otherwise.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def of_test_alone(site, log) -> None:
    log.clear()


@pytest.fixture(params=["refuse", "silence"])
def outage(request, proxy) -> Callable[[], None]:
    """Return a function that makes the server refuse all connections, or never answer."""
    cut: Callable[[], None] = getattr(proxy, request.param)
    return cut


@pytest.fixture
def bob(db) -> User:
    user: User = User.objects.create_user("bob")
    return user


CHANGES = {"deactivate": save, "delete": delete, "password": set_password}

changes = pytest.mark.parametrize("change", CHANGES)


def has_happened(change: str, user_id: int) -> bool:
    """Whether the database has it."""
    user = User.objects.filter(pk=user_id).first()
    if change == "delete":
        return user is None
    assert user is not None
    return not user.is_active if change == "deactivate" else user.check_password(NEW_PASSWORD)


def sign_in(user: User, browsers: int = 1) -> list[Browser]:
    signed_in = [Browser(Client()) for _ in range(browsers)]
    for each in signed_in:
        each.sign_in(user)
    return signed_in


def assert_left(proxy: Proxy, log: pytest.LogCaptureFixture, change: str, *user_ids: int, sessions: int = 1) -> None:
    """The change was made and each user named; so many sessions of each were left, and end with the call it names."""
    assert [has_happened(change, user_id) for user_id in user_ids] == [True] * len(user_ids)
    assert_logged(log, *user_ids)
    proxy.restore()
    for user_id in user_ids:
        assert count(user_id) == sessions
        assert accounts.logout_everywhere(User(pk=user_id)) == sessions
        assert count(user_id) == 0


def assert_logged(log: pytest.LogCaptureFixture, *user_ids: int) -> None:
    """One line names each user and what to call, one more says that there is an outage, and there is no other."""
    lines = lines_of(log, "django_redsess", logging.ERROR)
    outages = [line for line in lines if line.startswith("Sessions can't be reached")]
    named = [line for line in lines if line not in outages]
    assert len(outages) == 1
    assert len(named) == len(user_ids)
    for line, user_id in zip(named, user_ids, strict=True):
        assert f"user '{user_id}' " in line
        assert "logout_everywhere()" in line
    assert lines_of(log, "django.db.backends.base", logging.ERROR) == []


@changes
def test_outside_a_request_the_change_is_made_and_the_user_named(partitions, bob, proxy, outage, log, change) -> None:
    user_id = bob.pk
    sign_in(bob, 2)
    outage()
    CHANGES[change](bob, Client())
    assert_left(proxy, log, change, user_id, sessions=2)


@changes
def test_in_a_transaction_the_change_is_committed_and_the_user_named(bob, alice, proxy, log, change: str) -> None:
    ids = alice.pk, bob.pk
    for user in (alice, bob):
        sign_in(user)
    with transaction.atomic():
        for user in (alice, bob):
            CHANGES[change](user, Client())
        proxy.refuse()
    assert_left(proxy, log, change, *ids)


@changes
def test_whose_sessions_stayed_is_taken_for_signed_out_all_the_same(bob, proxy, change: str) -> None:
    [browser] = sign_in(bob)
    proxy.refuse()
    CHANGES[change](bob, Client())
    proxy.restore()
    assert browser.get("/who/").content == b"nobody"


@pytest.mark.parametrize(("session", "atomic"), [("none", False), ("none", True), ("unused", False), ("needed", False)])
@changes
def test_a_request_makes_the_change_and_is_a_503_where_it_needs_its_session(
    browser, alice, bob, outage, proxy, log, monkeypatch, change: str, session: str, atomic: bool
) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", atomic)
    user_id = bob.pk
    if session != "none":
        browser.sign_in(alice)
    sign_in(bob)
    outage()
    if session == "needed":
        assert_unavailable(browser.get(f"/read-and-another/bob/{change}/"))
    else:
        response = browser.get(f"/another/bob/{change}/")
        assert (response.status_code, response.content, list(response.cookies)) == (200, b"done", [])
    assert_left(proxy, log, change, user_id)
    assert browser.get("/who/").content == (b"nobody" if session == "none" else b"alice")


@pytest.mark.parametrize("way", ["cycles_after", "cycles_before", "keeps_the_key", "cycles_in_the_transaction"])
def test_who_changes_the_own_password_when_the_server_goes_away_gets_a_503(browser, alice, proxy, log, way) -> None:
    browser.sign_in(alice)
    [elsewhere] = sign_in(alice)
    proxy.before(scripts.END_RANGE.digest, proxy.refuse)
    assert_unavailable(browser.get(f"/password/{way}/"))
    assert has_happened("password", alice.pk)
    assert_logged(log, alice.pk)
    proxy.restore()
    assert accounts.logout_everywhere(alice) == 2
    assert elsewhere.get("/who/").content == b"nobody"


@pytest.mark.parametrize("closing", ["deactivate", "delete"])
def test_who_closes_an_account_in_an_outage_is_answered_and_signed_out(browser, alice, proxy, log, closing) -> None:
    user_id = alice.pk
    browser.sign_in(alice)
    proxy.before(scripts.END_RANGE.digest, proxy.refuse)
    response = browser.get(f"{browser.views}/close/{closing}/does_nothing/")
    # It may be asked for nothing more, and then there is nothing to wait for.
    assert (response.status_code, list(response.cookies)) == (200, [])
    assert has_happened(closing, user_id)
    assert_logged(log, user_id)
    proxy.restore()
    assert count(user_id) == 1
    assert browser.get("/who/").content == b"nobody"
    accounts.logout_everywhere(User(pk=user_id))
    assert count(user_id) == 0


@pytest.mark.parametrize("how", ["refused", "reply lost", "forgetting refused"])
def test_a_password_that_could_not_be_counted_is_not_tried(browser, alice, proxy, redis, monkeypatch, how) -> None:
    set_password(alice, Client())
    browser.sign_in(alice)
    make_older(redis, browser.sid, 301)
    asked = list[User]()
    monkeypatch.setattr(reauthentication, "authenticate", lambda *_, **__: asked.append(alice) or alice)
    if how == "refused":
        proxy.before(scripts.COUNT_TRY.digest, proxy.refuse)
    elif how == "reply lost":
        proxy.lose_reply(scripts.COUNT_TRY.digest)
    else:
        proxy.before("DEL", proxy.refuse)
    assert_unavailable(browser.post("/account/sessions/end-others/", {"password": NEW_PASSWORD}))
    assert asked == ([alice] if how == "forgetting refused" else [])


@changes
def test_a_change_whose_reply_was_lost_ends_all_sessions_and_logs_nothing(partitions, bob, proxy, log, change) -> None:
    user_id = bob.pk
    sign_in(bob, 3)
    proxy.lose_reply(scripts.END_RANGE.digest)
    CHANGES[change](bob, Client())
    assert proxy.lost == 1
    assert (has_happened(change, user_id), count(user_id)) == (True, 0)
    assert lines_of(log, "django_redsess", logging.ERROR) == []


def test_logout_everywhere_raises_in_an_outage_and_works_afterwards(bob, proxy, outage) -> None:
    sign_in(bob, 2)
    outage()
    with pytest.raises(SessionStoreUnavailable):
        accounts.logout_everywhere(bob)
    proxy.restore()
    assert accounts.logout_everywhere(bob) == 2


@pytest.mark.parametrize("change", ["deactivate", "delete"])
def test_cut_off_half_way_logout_everywhere_goes_on(partitions, redis, proxy, log, told, change) -> None:
    user_id = 1
    bob = User.objects.create_user("bob", pk=user_id)
    fill(redis, 600, users=1, viewed=0)
    digest = scripts.END_RANGE.digest
    proxy.before(digest, lambda: proxy.before(digest, proxy.refuse))
    CHANGES[change](bob, Client())
    assert has_happened(change, user_id)
    assert_logged(log, user_id)
    proxy.restore()
    end_outage()
    left = count(user_id)
    assert 0 < left < 600
    assert accounts.logout_everywhere(User(pk=user_id)) == left
    assert count(user_id) == 0
    assert len(set(told)) >= 600
