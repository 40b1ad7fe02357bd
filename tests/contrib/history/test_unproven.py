"""A request that uses a session without the proof of its device: its row, the pages that show it, and the mail."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.core.management import call_command
from django.utils import timezone

from django_redsess.contrib.history import database, lost, mails, repair
from django_redsess.contrib.history.database import losses
from django_redsess.contrib.history.models import SignIn
from django_redsess.signals import BegunSession, UnprovenRequest, session_not_proven, sessions_began
from tests.admin.visits import FIREFOX
from tests.contrib.history.rows import LIST, ended, row, rows_of
from tests.helpers.admin_pages import Page

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history")]

THIEF = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/142.0.0.0 Safari/537.36"


@pytest.fixture
def alice() -> User:
    return User.objects.create_user("alice", "alice@shop.example", "secret")


def use(
    user_id: Any,
    at: datetime,
    address: str = "203.0.113.9",
    agent: str = THIEF,
    *,
    skipped: str = "",
    refused: bool = True,
) -> None:
    """Use the session that began ``at`` this time without proof."""
    told = UnprovenRequest("s" * 20, str(user_id), at, address, agent, skipped, False, refused)
    for _, answer in session_not_proven.send_robust(UnprovenRequest, sessions=[told], request=None):
        assert answer is None


def stored(sign_in: SignIn) -> tuple[str, str, bool | None]:
    sign_in.refresh_from_db()
    assert (sign_in.unproven_at is None) == (sign_in.unproven_refused is None)
    return sign_in.unproven_address, sign_in.unproven_user_agent, sign_in.unproven_refused


def test_the_last_request_is_in_the_row_of_its_sign_in(alice) -> None:
    own, other = row(alice, ago=timedelta(hours=2)), row(alice)
    others = row(User.objects.create_user("bob"))
    use(alice.pk, own.created_at, refused=False)
    assert stored(own) == ("203.0.113.9", THIEF, False)
    assert timezone.now() - own.unproven_at < timedelta(minutes=1)
    use(alice.pk, own.created_at, "2001:db8::9", "curl/8.14.1")
    assert stored(own) == ("2001:db8::9", "curl/8.14.1", True)
    assert (own.address, own.user_agent, own.ended_at) == ("192.0.2.7", FIREFOX, None)
    assert stored(other) == stored(others) == ("", "", None)


@pytest.mark.usefixtures("notify")
def test_a_browser_that_says_that_it_could_not_prove_itself_is_no_news(alice) -> None:
    own = row(alice)
    use(alice.pk, own.created_at, skipped="unreachable")
    assert stored(own) == ("", "", None)
    assert mail.outbox == []


def test_a_guest_and_who_is_no_user_any_more_leave_no_row(alice) -> None:
    at, user_id = row(alice).created_at, alice.pk
    alice.delete()
    for nobody in (user_id, "", "x"):
        use(nobody, at)
    assert not SignIn.objects.exists()


def test_it_may_be_told_before_the_sign_in_is(alice) -> None:
    at = datetime(2030, 4, 1, tzinfo=UTC)
    use(alice.pk, at)
    sessions_began.send(
        BegunSession, sessions=[BegunSession("s" * 20, str(alice.pk), at, None, "192.0.2.7", FIREFOX)], request=None
    )
    [found] = SignIn.objects.all()
    assert stored(found) == ("203.0.113.9", THIEF, True)
    assert found.address == "192.0.2.7"


@pytest.mark.usefixtures("notify")
def test_a_database_that_fails_fails_nothing_and_the_row_is_counted_as_lost(alice, file: Path, monkeypatch) -> None:
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.2)
    losses.reset()
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        use(alice.pk, datetime(2030, 4, 1, tzinfo=UTC))
    assert (lost(), mail.outbox) == (1, [])
    losses.reset()


def test_pages_of_administrators_show_it(admin_client, alice) -> None:
    refused, observed, neither = (row(alice, ago=timedelta(hours=hours)) for hours in (1, 2, 3))
    use(alice.pk, refused.created_at)
    use(alice.pk, observed.created_at, "2001:db8::9", refused=False)
    marks = [found["text"] + found["own"] for found in rows_of(admin_client.get(LIST, {"user": alice.pk}))]
    assert ["refused" in mark for mark in marks] == [True, False, False]
    assert ["without proof" in mark for mark in marks] == [True, True, False]
    assert len(rows_of(admin_client.get(LIST, {"unproven": "true"}))) == 2
    pages = [Page(admin_client.get(f"{LIST}{each.pk}/change/")).text for each in (refused, observed, neither)]
    for page, texts in zip(pages, (("203.0.113.9", "Chrome 142"), ("2001:db8::9", "Chrome 142")), strict=False):
        assert all(text in page for text in texts)
    assert "ithout proof" not in pages[2]


def test_users_see_it_at_what_has_ended(client, alice) -> None:
    use(alice.pk, ended(alice).created_at)
    client.force_login(alice)
    page = Page(client.get("/account/sessions/")).text
    assert "Refused without proof" in page
    assert "203.0.113.9" in page


def test_a_users_export_has_it(alice, capsys) -> None:
    use(alice.pk, row(alice).created_at)
    call_command("history", "--export", "alice", "--json")
    said = capsys.readouterr().out
    assert '"unproven_address": "203.0.113.9"' in said
    assert '"unproven_refused": true' in said


def test_of_an_old_sign_in_nothing_of_the_thief_is_kept(alice, settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "HISTORY_DAYS": 1}
    old = ended(alice, ago=timedelta(days=3))
    use(alice.pk, old.created_at)
    list(repair.prune())
    old.refresh_from_db()
    assert (old.unproven_address, old.unproven_user_agent) == ("", "")


@pytest.mark.usefixtures("notify")
@pytest.mark.parametrize("refused", [True, False])
def test_the_user_gets_one_mail_a_session(alice, settings, refused: bool) -> None:
    settings.REDSESS = {**settings.REDSESS, "HISTORY_SITE_URL": "https://shop.example/"}
    first, second = row(alice), row(alice, ago=timedelta(hours=2))
    for address in ("203.0.113.9", "203.0.113.9", "203.0.113.10"):
        use(alice.pk, first.created_at, address, refused=refused)
    [message] = mail.outbox
    assert message.to == ["alice@shop.example"]
    html, _ = message.alternatives[0]
    assert "shop.example" in message.subject
    for text in (message.body, html):
        assert "203.0.113.9" in text
        assert "Chrome on Windows" in text
        assert "https://shop.example/account/sessions/" in text
        assert "It may have been you" in text
        assert ("was refused" in text) == refused
    use(alice.pk, second.created_at)
    assert len(mail.outbox) == 2


@pytest.mark.usefixtures("notify")
def test_a_thief_of_a_bound_session_is_in_the_row_of_its_sign_in(new_device, later, alice) -> None:
    row(alice)
    browser = new_device()
    form = {"username": "alice", "password": "secret"}
    assert browser.post("/login/", form, user_agent=FIREFOX).status_code == 302
    row(alice, ago=timedelta(0))
    later(30)
    browser.proof = None
    for _ in range(2):
        assert browser.send("get", "/account/sessions/", user_agent=THIEF).status_code == 401
    of_row, bound, other = (stored(each) for each in SignIn.objects.order_by("login_ms"))
    assert (of_row, bound, other) == (("", "", None), ("127.0.0.1", THIEF, True), ("", "", None))
    assert len(mail.outbox) == 1


@pytest.mark.usefixtures("notify")
def test_no_mail_is_about_the_users_own_browser(alice) -> None:
    at = row(alice, agent=THIEF).created_at
    use(alice.pk, at, "192.0.2.7", THIEF.replace("142", "143"))
    assert mail.outbox == []
    use(alice.pk, at, "192.0.2.7", FIREFOX)
    assert len(mail.outbox) == 1


def test_nobody_gets_a_mail_unless_the_site_asks_for_it(alice) -> None:
    use(alice.pk, row(alice).created_at)
    assert mail.outbox == []


@pytest.mark.usefixtures("notify")
def test_both_kinds_of_mails_count_for_the_day(alice) -> None:
    # Of old sessions: what counts is when the mail was sent.
    for days in range(mails.A_DAY_MAX + 1):
        use(alice.pk, row(alice, ago=timedelta(days=days + 2)).created_at)
    assert len(mail.outbox) == mails.A_DAY_MAX
    mails.notify(SignIn, alice, row(alice))
    assert len(mail.outbox) == mails.A_DAY_MAX
    SignIn.objects.update(unproven_notified_at=timezone.now() - timedelta(days=2))
    mails.notify(SignIn, alice, row(alice, ago=timedelta(seconds=1)))
    assert len(mail.outbox) == mails.A_DAY_MAX + 1
