"""What administrators list, end, block and count: by the rules of the site, and with the admin's histories."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from django_redsess import online
from django_redsess.accounts.reauthentication import RECENT_SECONDS
from django_redsess.admin import OnlineSessionAdmin, blocking
from django_redsess.models import OnlineSession
from django_redsess.permissions import Rules
from tests.helpers.accounts import PASSWORD, count, sid_of, sign_in, told_to
from tests.helpers.admin_pages import staff
from tests.helpers.api import ask, get, ids, status, walk
from tests.helpers.store import make_bound, make_older

pytestmark = pytest.mark.django_db

SEES, ENDS, BLOCKS = "view_onlinesession", "end_onlinesession", "block_user"


FIREFOX = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0"
CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36"


def signed_in_with(browser: str, **environ: str) -> Client:
    """A browser in which Alice has signed in by the form: its session has who sent that."""
    client = Client(HTTP_USER_AGENT=browser, **environ)
    answer = client.post("/login/", {"username": "alice", "password": PASSWORD})
    assert answer.status_code == 302
    return client


def lines() -> list[tuple[str | None, str]]:
    return [(line.object_id, line.change_message) for line in LogEntry.objects.order_by("pk")]


def in_hours(hours: float) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat()


@pytest.mark.parametrize(
    ("permissions", "allowed"),
    [
        ((), set()),
        ((SEES,), {"list", "one", "of user", "counts"}),
        ((ENDS, BLOCKS), set()),
        ((SEES, ENDS), {"list", "one", "of user", "counts", "end", "end many", "end all"}),
        ((SEES, BLOCKS), {"list", "one", "of user", "counts", "block of", "lift"}),
        (
            (SEES, ENDS, BLOCKS),
            {"list", "one", "of user", "counts", "end", "end many", "end all", "block of", "block", "lift"},
        ),
        (("view_signin",), {"history"}),
    ],
)
def test_each_needs_its_permissions(alice, here, permissions, allowed) -> None:
    for kind in ("list", "one", "of user", "counts", "history", "end", "end many", "end all", "block of", "block"):
        sid, client = sid_of(sign_in(alice)), staff(Client(), *permissions, name=f"staff {kind}")
        online.unblock(alice)
        asked: dict[str, tuple[Any, ...]] = {
            "list": ("get", "sessions"),
            "one": ("get", f"sessions/{sid}"),
            "of user": ("get", f"users/{alice.pk}/sessions"),
            "counts": ("get", "counts"),
            "history": ("get", "sign-ins"),
            "end": ("delete", f"sessions/{sid}"),
            "end many": ("post", "sessions/end", {"ids": [sid]}),
            "end all": ("delete", f"users/{alice.pk}/sessions"),
            "block of": ("get", f"users/{alice.pk}/block"),
            "block": ("put", f"users/{alice.pk}/block", {"until": in_hours(1)}),
        }
        done = {"end": 204, "end many": 200, "end all": 200, "block of": 404}.get(kind, 200)
        assert status(client, *asked[kind]) == (done if kind in allowed else 403), kind
        is_left = online.get(sid) is not None
        assert is_left == (kind not in allowed or kind not in ("end", "end many", "end all", "block"))
    online.block(alice, until=datetime.now(UTC) + timedelta(hours=1))
    lifted = status(staff(Client(), *permissions, name="lifts"), "delete", f"users/{alice.pk}/block")
    assert lifted == (204 if "lift" in allowed else 403)
    assert (online.block_of(alice) is None) == ("lift" in allowed)


def test_ordinary_users_with_permissions_are_not_let_in(alice, here) -> None:
    client = staff(Client(), SEES, ENDS, BLOCKS)
    User.objects.filter(username="staff").update(is_staff=False)
    for method, path in (("get", "sessions"), ("delete", f"sessions/{sid_of(here)}"), ("get", "counts")):
        assert status(client, method, path) == 403
    assert count(alice) == 1


def test_filters_are_those_of_the_page(redis, alice, root, new_session, settings, tmp_path) -> None:
    firefox, chrome = signed_in_with(FIREFOX), signed_in_with(CHROME, REMOTE_ADDR="198.51.100.7")
    guest = new_session(colour="red").sid
    own, one, two = sid_of(root), sid_of(firefox), sid_of(chrome)

    def found(**query: Any) -> set[str]:
        listed = walk(root, "sessions", **query)
        assert len(listed) == len(set(listed))
        return set(listed)

    assert found() == {own, one, two}
    assert found(guests="true") == {own, one, two, guest}
    assert found(guests="only") == {guest}
    assert found(active="5m") == found(active="1h") == found(active="1d") == {own, one, two}
    assert found(user=alice.pk) == {one, two}
    assert found(user=[alice.pk, root.session["_auth_user_id"]], limit=1) == {own, one, two}
    assert found(staff="true") == {own}
    assert found(network="198.51.100.0/24") == found(q="198.51.100.7") == {two}
    exits = tmp_path / "exits.txt"
    exits.write_text("198.51.100.0/24\n")
    settings.REDSESS = {**settings.REDSESS, "NETWORKS": {"exits": exits, "gone": tmp_path / "gone.txt"}}
    assert found(network="exits") == {two}
    assert status(root, "get", "sessions", network="gone") == 422
    assert found(browser="firefox 140") == found(system="windows") == {one}
    assert found(browser="chrome", user=alice.pk, active="1h", order="last_seen_at") == {two}
    make_bound(redis, two)
    assert found(device_bound="true") == found(device_bound="true", browser="chrome") == {two}
    assert found(device_bound="false") == {own, one}
    assert status(root, "get", "sessions", device_bound="yes") == 422
    assert [each["device_bound"] for each in get(root, "sessions", user=alice.pk)["sessions"]] == [True, False]
    assert found(q="alic") == {one, two}
    assert found(q=guest) == {guest}
    assert found(q=own, order="created_at") == {own}
    assert found(q="nobody at all") == set()
    assert ids(get(root, "sessions", order="created_at")) == ids(get(root, "sessions"))[::-1]
    assert ids(get(root, "sessions", user=alice.pk, order="-last_seen_at")) == ids(
        get(root, f"users/{alice.pk}/sessions")
    )
    for unknown in ("unknown", "a/b", "a%0Ab"):
        assert ids(get(root, f"users/{unknown}/sessions")) == []


def test_a_search_by_client_says_how_far_it_has_looked(alice, root) -> None:
    for number in range(3):
        signed_in_with(FIREFOX, REMOTE_ADDR=f"198.51.100.{number}")
    for query in ({"network": "198.51.100.0/24"}, {"browser": "Firefox"}, {"system": "windows"}):
        assert get(root, "sessions", **query, limit=2)["looked_through"] == {"count": 4, "is_all": True}
        found = walk(root, "sessions", **query, limit=2)
        assert (len(found), len(set(found))) == (3, 3)
    assert get(root, "sessions")["looked_through"] is None


def test_a_session_ends_with_a_message_and_a_line_in_the_history(alice, here, root) -> None:
    assert get(root, f"sessions/{sid_of(here)}")["user_id"] == str(alice.pk)
    sid = sid_of(here)
    assert status(root, "delete", f"sessions/{sid}", message="Call us.") == 204
    assert count(alice) == 0
    assert "Call us." in told_to(here)[1]
    assert lines() == [(str(alice.pk), "Ended 1 session. Message: Call us.")]
    for method in ("get", "delete"):
        assert status(root, method, f"sessions/{sid}") == 404
    assert len(lines()) == 1
    assert status(root, "delete", "sessions/x", message="x" * 201) == 422
    # As the schema counts: blanks and control characters too, though nobody would read them.
    assert status(root, "delete", "sessions/x", message="x" * 200 + "\x1b") == 422


def test_the_own_session_ends_when_it_is_named(root) -> None:
    assert status(root, "delete", f"sessions/{sid_of(root)}") == 204
    assert status(root, "get", "counts") == 401


def test_many_end_at_once_and_each_is_accounted_for(alice, here, there) -> None:
    superuser = sid_of(sign_in(User.objects.create_superuser("root")))
    client = staff(Client(), SEES, ENDS)
    asked = [sid_of(here), sid_of(there), superuser, "x" * 20, "no id", sid_of(here)]
    answer = ask(client, "post", "sessions/end", {"ids": asked, "message": "Call us."}).json()
    assert answer == {
        "ended": sorted([sid_of(here), sid_of(there)]),
        "refused": [superuser],
        "gone": sorted(["x" * 20, "no id"]),
        "may_return": False,
    }
    assert online.get(superuser)
    assert lines() == [(str(alice.pk), "Ended 2 sessions. Message: Call us.")]
    for body in ({"ids": []}, {"ids": "x"}, {"ids": [1]}, {"ids": ["x"] * 1001}, {"ids": ["x"], "message": "x" * 201}):
        assert status(client, "post", "sessions/end", body) == 422


def test_a_session_with_a_new_key_ends_under_it(alice, here, root) -> None:
    old, session = sid_of(here), here.session
    session.cycle_key()
    session.save()
    assert status(root, "get", f"sessions/{old}") == 404
    assert status(root, "delete", f"sessions/{old}") == 204
    assert count(alice) == 0


def test_all_of_a_user_end_but_for_the_own_session(alice, here, there, root) -> None:
    assert ask(root, "delete", f"users/{alice.pk}/sessions", message="Go.").json()["ended"] == 2
    assert count(alice) == 0
    assert lines() == [(str(alice.pk), "Ended 2 sessions. Message: Go.")]
    own = root.session["_auth_user_id"]
    sign_in(User.objects.get(pk=own))
    assert ask(root, "delete", f"users/{own}/sessions").json()["ended"] == 1
    assert get(root, "counts") == {"signed_in": 1, "guests": 0, "active": 1}


def test_only_superusers_end_and_block_superusers(root) -> None:
    client, pk = staff(Client(), SEES, ENDS, BLOCKS), root.session["_auth_user_id"]
    assert status(client, "delete", f"sessions/{sid_of(root)}") == 403
    assert status(client, "delete", f"users/{pk}/sessions") == 403
    assert status(client, "put", f"users/{pk}/block", {"until": in_hours(1)}) == 403
    assert status(root, "put", f"users/{pk}/block", {"until": in_hours(1)}) == 403
    assert online.get(sid_of(root))
    assert online.blocked() == []
    assert lines() == []


class OfAlice(Rules):
    """One session of hers is hidden, and one stays."""

    hidden = kept = ""

    def visible_sessions(self, user: Any, sessions: Any) -> Any:
        return sessions.of_users([str(User.objects.get(username="alice").pk)])

    def may_see(self, user: Any, session: Any = None) -> bool:
        return session is None or session.sid != self.hidden

    def may_end(self, user: Any, session: Any = None) -> bool:
        return session is None or session.sid != self.kept


def test_a_sites_own_rules_hold(alice, here, there, root, monkeypatch, settings) -> None:
    hidden, kept = sid_of(here), sid_of(there)
    monkeypatch.setattr(OfAlice, "hidden", hidden)
    monkeypatch.setattr(OfAlice, "kept", kept)
    settings.REDSESS = {**settings.REDSESS, "PERMISSIONS": f"{__name__}.OfAlice"}
    assert ids(get(root, "sessions")) == [kept]
    assert get(root, "counts")["signed_in"] == 1
    assert status(root, "get", f"sessions/{hidden}") == 404
    assert status(root, "delete", f"sessions/{kept}") == 403
    assert ask(root, "delete", f"users/{alice.pk}/sessions").json()["ended"] == 0
    answer = ask(root, "post", "sessions/end", {"ids": [hidden, kept, sid_of(root)]}).json()
    assert (answer["ended"], answer["refused"], set(answer["gone"])) == ([], [kept], {hidden, sid_of(root)})
    assert status(root, "put", f"users/{alice.pk}/block", {"until": in_hours(1)}) == 403
    assert count(alice) == 2


class GuestsOnly(Rules):
    def visible_sessions(self, user: Any, sessions: Any) -> Any:
        return sessions.only_guests()


def test_a_site_that_lists_guests_ends_none_of_them_for_a_user(alice, here, root, new_session, settings) -> None:
    guest = new_session(colour="blue").sid
    settings.REDSESS = {**settings.REDSESS, "PERMISSIONS": f"{__name__}.GuestsOnly"}
    assert ask(root, "delete", f"users/{alice.pk}/sessions").json()["ended"] == 0
    assert online.get(guest) is not None
    assert count(alice) == 1


class OwnPage(OnlineSessionAdmin):
    """Shows nobody to nobody."""

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).none()

    def has_view_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_end_permission(self, request: Any, obj: Any = None) -> bool:
        return False


def test_what_a_page_allows_is_for_that_page(alice, here, root, monkeypatch) -> None:
    monkeypatch.setitem(admin.site._registry, OnlineSession, OwnPage(OnlineSession, admin.site))
    assert sid_of(here) in ids(get(root, "sessions"))
    assert status(root, "put", f"users/{alice.pk}/block", {"until": in_hours(1)}) == 200
    assert count(alice) == 0


def test_a_block_is_a_week_at_most_for_who_may_not_change_the_user(alice, root) -> None:
    path, week = f"users/{alice.pk}/block", 7 * 24
    client = staff(Client(), SEES, ENDS, BLOCKS)
    answer = ask(client, "put", path, {"until": in_hours(week + 2)})
    assert (answer.status_code, answer.json()["detail"]) == (403, "You may block this user for at most 7 days.")
    assert status(client, "put", path, {"until": "9998-01-01T00:00:00Z"}) == 403
    assert online.blocked() == []
    assert status(client, "put", path, {"until": in_hours(week)}) == 200
    for may_change in (staff(Client(), SEES, ENDS, BLOCKS, "change_user", name="dora"), root):
        assert status(may_change, "put", path, {"until": in_hours(week + 2)}) == 200
        assert status(may_change, "put", path, {"until": "9998-01-01T00:00:00Z"}) == 422
    assert max(map(int, blocking.HOURS)) == week


def test_a_user_is_blocked_shown_and_let_in_again(alice, here, root) -> None:
    path = f"users/{alice.pk}/block"
    assert status(root, "get", path) == 404
    words = {"message": "Call us.", "internal_note": "Case 7"}
    until = datetime.fromisoformat(in_hours(24)).replace(microsecond=0)
    there = until.astimezone(timezone(timedelta(hours=2)))
    answer = ask(root, "put", path, {"until": there.isoformat(), **words})
    by = {"by": root.session["_auth_user_id"], "by_user": "root"}
    block = {
        "user_id": str(alice.pk),
        "user": "alice",
        "until": until.isoformat(timespec="milliseconds"),
        **by,
        **words,
        "message_code": "",
    }
    assert (answer.status_code, answer.json()) == (200, {**block, "ended": 1})
    assert get(root, path) == block
    assert count(alice) == 0
    assert [line for _, line in lines()][1] == "Ended 1 session. Message: Call us. · Internal note: Case 7"
    assert status(root, "delete", path) == 204
    assert status(root, "delete", path) == 404
    assert lines()[-1] == (str(alice.pk), "Lifted the block.")
    assert online.block_of(alice) is None
    for until in ("2031-04-01", "2031-04-01T12:00:00", "soon", "9999-12-31T23:59:59-12:00", in_hours(-1), 5):
        assert status(root, "put", path, {"until": until}) == 422
    for method, body in (("get", None), ("put", {"until": in_hours(1)}), ("delete", None)):
        assert status(root, method, "users/0/block", body) == 404


def test_a_site_without_the_page_in_its_admin_has_no_such_urls(root) -> None:
    page = admin.site._registry.pop(OnlineSession)
    try:
        assert status(root, "get", "sessions") == 404
        assert status(root, "get", "me/sessions") == 200
    finally:
        admin.site._registry[OnlineSession] = page


@pytest.mark.parametrize("path", ["one", "many", "all"])
def test_own_other_sessions_take_the_password(root, redis, path) -> None:
    user = User.objects.get(username="root")
    make_older(redis, sid_of(root), RECENT_SECONDS + 1)
    sid = sid_of(sign_in(user))
    asked: dict[str, tuple[Any, ...]] = {
        "one": ("delete", f"sessions/{sid}"),
        "many": ("post", "sessions/end", {"ids": [sid]}),
        "all": ("delete", f"users/{user.pk}/sessions"),
    }
    problem = ask(root, *asked[path]).json()
    assert (problem["status"], problem["type"].rpartition("#")[2]) == (403, "password-required")
    assert count(user) == 2
    assert status(root, "post", "me/reauthenticate", {"password": PASSWORD}) == 204
    assert status(root, *asked[path]) in (200, 204)
    assert count(user) == 1


def test_the_present_session_and_others_of_users_take_no_password(alice, here, root, redis) -> None:
    make_older(redis, sid_of(root), RECENT_SECONDS + 1)
    assert status(root, "delete", f"sessions/{sid_of(here)}") == 204
    assert status(root, "delete", f"users/{alice.pk}/sessions") == 200
    assert status(root, "delete", f"sessions/{sid_of(root)}") == 204


@pytest.mark.parametrize(("permissions", "reads"), [((SEES, ENDS, BLOCKS), True), ((SEES, BLOCKS), False)])
def test_the_note_of_a_block_is_read_by_those_who_may_write_it(alice, root, permissions, reads) -> None:
    path = f"users/{alice.pk}/block"
    ask(root, "put", path, {"until": in_hours(1), "message": "Call us.", "internal_note": "Case 7"})
    found = get(staff(Client(), *permissions), path)
    assert (found["message"], found["internal_note"]) == ("Call us.", "Case 7" if reads else None)
    assert (found["user"], found["by_user"]) == ("alice", "root")
    assert status(root, "put", path, {"until": in_hours(1), "internal_note": "x" * 201}) == 422


@pytest.mark.parametrize("way", ["one", "many", "all"])
def test_a_note_is_written_with_an_end(alice, here, root, way) -> None:
    sid = sid_of(here)
    if way == "one":
        ask(root, "delete", f"sessions/{sid}", internal_note="Case 7")
    elif way == "all":
        ask(root, "delete", f"users/{alice.pk}/sessions", internal_note="Case 7")
    else:
        ask(root, "post", "sessions/end", {"ids": [sid], "internal_note": "Case 7"})
    assert lines() == [(str(alice.pk), "Ended 1 session. Internal note: Case 7")]
