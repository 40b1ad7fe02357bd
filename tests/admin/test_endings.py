"""Ending sessions in the admin: what is asked before, who may, what is ended, and what is written down of it."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote as percent

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.contrib.contenttypes.models import ContentType
from django.test import Client

from benchmarks.fill import fill
from django_redsess import online
from django_redsess.admin import OnlineSessionAdmin, ending, log_entries
from django_redsess.backend import SessionStore
from django_redsess.models import OnlineSession
from django_redsess.online import ending as ending_of_many
from django_redsess.online.listing import SessionFilter
from tests.helpers.admin_pages import (
    CONFIRM,
    END,
    LIST,
    Page,
    answer,
    asked,
    have_own_rule,
    left,
    milliseconds_ago,
    page_of,
    staff,
    told,
    walk,
)
from tests.helpers.online import sign_in
from tests.helpers.store import keyspace, make_due, make_seen

pytestmark = [pytest.mark.django_db, pytest.mark.on_cluster]

MAY_END = ("view_onlinesession", "end_onlinesession", "end_all_onlinesession")

LATER = 10**15
"""A cut-off time that leaves nobody out."""


def select(client: Client, *sids: str, query: str = "", **more: str) -> Any:
    """Choose the action for these rows of the list."""
    return client.post(LIST + query, {"action": "end_selected", "_selected_action": sids, **more})


def select_all(client: Client, query: str = "") -> Any:
    """Choose the action for all that match: what the list's own page sends then."""
    return select(client, "x" * 20, query=query, select_across="1", index="0")


@pytest.mark.parametrize("listed", [False, True], ids=["named", "listed"])
def test_a_message_above_200_characters_ends_nothing_and_nothing_is_lost(admin_client, users, sids, listed) -> None:
    shopper = Client()
    shopper.force_login(users["bob"])
    chosen = (sids["alice"], shopper.session.sid, admin_client.session.sid)
    response = admin_client.get(CONFIRM) if listed else select(admin_client, *chosen)
    before, number = Page(response).fields, asked(response)
    assert number == (4 if listed else 2)
    again = answer(admin_client, response, message="x" * 201, own="on")
    assert again.status_code == 200
    fields = Page(again).fields
    assert (fields["message"], fields["own"]) == ("x" * 201, "on")
    for kept in ("sids", "query"):
        assert fields.get(kept) == before.get(kept)
    assert asked(again) == number
    assert len(left()) == 5
    assert not LogEntry.objects.exists()
    answer(admin_client, again, message="é" * 200)
    assert left() == (set() if listed else {sids["bob"], sids["carol"]})
    assert shopper.get("/").wsgi_request.session.ended.message == "é" * 200


@pytest.fixture
def crowd(redis, users, admin_user, new_session) -> dict[str, str]:
    """Sessions of all kinds, by what is particular to each."""
    User.objects.filter(username="alice").update(is_staff=True)
    ids = {name: str(user.pk) for name, user in users.items()}
    found = {
        "alice": new_session(ids["alice"]).sid,
        "alice, an hour ago": new_session(ids["alice"]).sid,
        "bob": new_session(ids["bob"]).sid,
        "bob, two days ago": new_session(ids["bob"]).sid,
        "carol, an hour ago": new_session(ids["carol"]).sid,
        "admin, elsewhere": new_session(str(admin_user.pk)).sid,
        "guest": new_session(colour="blue").sid,
        "guest, two days ago": new_session(colour="red").sid,
    }
    for name, sid in found.items():
        ago = 3000 if "hour" in name else 180_000 if "days" in name else 60
        make_seen(redis, sid, milliseconds_ago(ago))
    return found


QUERIES = [
    *("active=5m", "staff=true&active=5m", "user=OWN", "user=BOB&user=CAROL", "user=BOB&q=alice", "user=", "q=o"),
    *("q=SID", "q=GUEST", "guests=true&q=GUEST", "guests=true&active=1h", "p=2", "active=9y&guests=nobody&staff=7"),
]


@pytest.mark.usefixtures("few_on_a_page")
@pytest.mark.parametrize("way", ["action", "address"])
@pytest.mark.parametrize("query", QUERIES)
def test_what_the_list_shows_is_what_is_ended(admin_client, admin_user, users, crowd, query, way) -> None:
    words = {"BOB": str(users["bob"].pk), "CAROL": str(users["carol"].pk), "OWN": str(admin_user.pk)}
    words |= {"SID": crowd["carol, an hour ago"], "GUEST": crowd["guest"]}
    for word, value in words.items():
        query = re.sub(rf"\b{word}\b", percent(value), query)
    own, before = admin_client.session.sid, left()
    pages = "" if query == "p=2" else query
    shown = {sid for page in walk(admin_client, f"{LIST}?{pages}") for sid in page.sids}
    response = select_all(admin_client, f"?{query}") if way == "action" else admin_client.get(f"{CONFIRM}?{query}")
    assert asked(response) == len(shown - {own})
    assert left() == before
    answer(admin_client, response)
    # The own session stays, under a new key where all others of its user have ended.
    assert before - left() - {own} == shown - {own}
    assert admin_client.session.sid in left()


def test_a_strange_address_of_the_confirmation_is_answered(admin_client, sids) -> None:
    for query in (
        *("nonsense=1", "user__is_staff=1", "user=" + "9" * 30, "_to_field=sid", "o=99&p=x", "q=a%00"),
        "q=" + "x" * 201,
    ):
        assert admin_client.get(f"{CONFIRM}?{query}", follow=True).status_code in (200, 400), query
        assert select_all(admin_client, f"?{query}").status_code in (200, 302, 400), query
    assert len(left()) == 4


@pytest.mark.parametrize("query", ["", "?guests=true", "?active=1h", "?q=alice", "?o=3"])
def test_who_signs_in_after_the_question_stays_and_a_guest_who_is_seen_does_not(
    partitions, admin_client, redis, users, sids, new_session, monkeypatch, query
) -> None:
    if query == "?o=3":
        # One by one, as where a site decides about each.
        every = OnlineSessionAdmin.has_end_permission
        have_own_rule(monkeypatch, "has_end_permission", lambda self, *args: every(self, *args))
    guest = new_session(colour="blue").sid
    response = admin_client.get(CONFIRM + query)
    make_seen(redis, guest, milliseconds_ago(-1))
    newcomer = sign_in(new_session, str(users["alice"].pk))[0]
    answer(admin_client, response)
    assert sids["alice"] not in left()
    assert newcomer in left()
    assert (guest in left()) == (query != "?guests=true")


@pytest.mark.parametrize("query", ["?guests=true", "?q=alice", "?o=4", "USERS", "named"])
def test_who_is_seen_or_gets_another_key_meanwhile_is_ended(partitions, admin_client, redis, users, query) -> None:
    shoppers = [Client(), Client()]
    for shopper in shoppers:
        shopper.force_login(users["alice"])
        make_seen(redis, shopper.session.sid, milliseconds_ago(1800))
    query = query.replace("USERS", "?" + "&".join(f"user={user.pk}" for user in users.values()))
    named = [shopper.session.sid for shopper in shoppers]
    response = select(admin_client, *named) if query == "named" else admin_client.get(CONFIRM + query)
    assert asked(response) == 2
    shoppers[0].get("/")
    moved = SessionStore(shoppers[1].session.session_key)
    moved.cycle_key()
    moved.save()
    assert told(answer(admin_client, response)) == "2 sessions of alice were ended."
    assert left() == {admin_client.session.sid}


@pytest.mark.parametrize("own", [False, True], ids=["", "the own session too"])
def test_more_than_a_request_can_do_is_continued_to_the_end(partitions, admin_client, redis, monkeypatch, own) -> None:
    monkeypatch.setattr(ending, "END_MAX", 1)
    # A call ends up to 250.
    fill(redis, 260, viewed=0)
    sids = left() - {admin_client.session.sid}
    response = admin_client.get(CONFIRM)
    assert asked(response) == 260
    response, pages = answer(admin_client, response, message="Closing time", **({"own": "on"} if own else {})), 0
    number = 260
    while asked(response):
        pages += 1
        ended = int(re.match(r"(\d+) sessions? (?:were|was|of)", told(response))[1])
        assert asked(response) == number - ended == len(left() & sids)
        number -= ended
        response = answer(admin_client, response)
    assert pages >= 1
    assert told(response).startswith(f"{number + own} session")
    assert left() == (set() if own else {admin_client.session.sid})
    notes = [redis.get(keyspace().of_sid(sid).ended_of(sid)) for sid in sids]
    assert all(note.endswith(b"Closing time") for note in notes)
    lines = LogEntry.objects.values_list("change_message", flat=True)
    assert sum(int(re.search(r"\d+", line)[0]) for line in lines) == 260 + own
    assert all(line.endswith("Message: Closing time") for line in lines)


TAMPERED = [
    *({"latest": None}, {"latest": "abc"}, {"latest": "9" * 30}),
    *({"number": "-1"}, {"number": "9" * 30}, {"position": "99:-inf:"}, {"position": "\0"}),
    *({"sids": "x" * 20}, {"sids": "x a,b {redsess}:login " + "y" * 5000}, {"sids": "   ", "latest": ""}),
    *({"query": "user__is_staff=1"}, {"query": "_to_field=user_id"}, {"query": "user=nobody"}),
    {"query": "&".join(["user=0"] * 1001)},
    dict.fromkeys(("sids", "latest", "number", "query", "message", "_changelist_filters")),
]


def test_a_form_that_was_tampered_with_is_answered_and_ends_nothing(admin_client, sids) -> None:
    question = Page(admin_client.get(CONFIRM)).fields
    for changes in TAMPERED:
        fields = {**question, **changes}
        response = admin_client.post(END, {name: value for name, value in fields.items() if value is not None})
        assert response.status_code in (200, 302, 400), changes
        assert len(left()) == 4, changes
    assert not LogEntry.objects.exists()


def test_the_own_session_stays_where_others_are_ended_and_alone_ends_by_one_click(admin_client, sids) -> None:
    own = admin_client.session.sid
    response = select(admin_client, own, sids["bob"])
    assert asked(response) == 1
    assert "Your own session stays" in Page(response).text
    assert 'name="own"' in response.text
    assert 'name="own"' not in select(admin_client, sids["bob"]).text
    assert told(answer(admin_client, response)) == "1 session of bob was ended."
    assert left() == {own, sids["alice"], sids["carol"]}
    # It is asked for again if the others are over, and nothing is in the history then.
    lines = LogEntry.objects.count()
    response = select(admin_client, own, sids["carol"])
    online.end(sids["carol"])
    again = answer(admin_client, response, message="why not")
    assert Page(again).fields["message"] == "why not"
    assert own in left()
    assert LogEntry.objects.count() == lines
    for response in (select(admin_client, own), again):
        assert 'type="checkbox"' not in response.text
        assert 'value="Yes, sign me out"' in response.text
    ended = answer(admin_client, again)
    assert left() == {sids["alice"]}
    assert ended.redirect_chain[-1][0].startswith("/admin/login/")


def test_the_own_session_is_not_ended_under_a_former_name(admin_client, sids) -> None:
    # A change of the password in another tab gives the session a new key.
    response = select(admin_client, admin_client.session.sid, sids["bob"])
    session = SessionStore(admin_client.session.session_key)
    session.cycle_key()
    session.save()
    admin_client.cookies["sessionid"] = session.session_key
    answer(admin_client, response)
    assert left() == {session.sid, sids["alice"], sids["carol"]}


@pytest.mark.parametrize("storage", ["cookie.CookieStorage", "session.SessionStorage"])
@pytest.mark.parametrize("way", ["named", "everyone"])
def test_who_ends_the_own_session_too_is_signed_out_and_told(admin_client, sids, settings, storage, way) -> None:
    settings.MESSAGE_STORAGE = f"django.contrib.messages.storage.{storage}"
    own = admin_client.session.sid
    response = admin_client.get(CONFIRM) if way == "everyone" else select(admin_client, own, *sids.values())
    assert asked(response) == 3
    response = answer(admin_client, response, own="on", message="Good night")
    assert response.status_code == 200
    assert response.redirect_chain[-1][0].startswith("/admin/login/")
    assert "4 sessions were ended." in told(response)
    assert online.count() == 0
    assert not response.wsgi_request.user.is_authenticated


@pytest.fixture
def root(new_session) -> SessionStore:
    """The session of a superuser."""
    session: SessionStore = new_session(str(User.objects.create_superuser("root").pk))
    return session


@pytest.mark.parametrize("way", ["one", "several", "action on all", "user", "everyone and guests"])
def test_a_superusers_session_is_ended_by_superusers_only(client, root, sids, new_session, way) -> None:
    staff(client, *MAY_END)
    others = {sids["alice"], sids["bob"], sids["carol"]}
    user = f"user={User.objects.get(username='root').pk}"
    response, number = {
        "one": lambda: (client.get(f"{CONFIRM}?sid={root.sid}"), 0),
        "several": lambda: (select(client, root.sid, *others), 3),
        "action on all": lambda: (select_all(client), 3),
        "user": lambda: (client.get(f"{CONFIRM}?{user}"), 0),
        "everyone and guests": lambda: (client.get(CONFIRM + "?guests=true"), 3),
    }[way]()
    assert asked(response) == number
    assert "superuser" in Page(response).text
    response = answer(client, response)
    assert response.status_code == 200
    assert left() == {root.sid, client.session.sid} | (set() if number else others)
    assert ("3 sessions were ended." in told(response)) == bool(number)


def test_a_superusers_session_is_refused_whatever_is_posted(client, admin_client, users, sids, root) -> None:
    staff(client, *MAY_END)
    # Who becomes one after the question, too.
    question = client.get(CONFIRM)
    User.objects.filter(username="bob").update(is_superuser=True)
    answer(client, question)
    assert left() == {sids["bob"], root.sid, client.session.sid, admin_client.session.sid}
    LogEntry.objects.all().delete()
    user = f"user={User.objects.get(username='root').pk}"
    assert "superuser" in told(client.post(END, {"sids": root.sid}, follow=True))
    assert told(client.post(END, {"latest": LATER, "query": user}, follow=True))
    for fields in (
        {"sids": f"{root.sid} {root.sid}"},
        {"sids": root.sid, "own": "on", "latest": LATER},
        {"latest": LATER},
        {"latest": LATER, "query": "q=root"},
        {"latest": LATER, "query": "guests=true&active=1d"},
    ):
        assert client.post(END, fields, follow=True).status_code == 200
        assert root.sid in left()
    # Under a former name neither.
    former = root.sid
    root.cycle_key()
    root.save()
    client.post(END, {"sids": former})
    assert root.sid in left()
    assert not LogEntry.objects.exists()
    answer(admin_client, select(admin_client, root.sid))
    assert root.sid not in left()


def test_what_is_gone_before_or_after_the_question_is_told(admin_client, redis, sids, new_session) -> None:
    online.end(sids["bob"])
    assert "over already" in told(admin_client.get(f"{CONFIRM}?sid={sids['bob']}", follow=True))
    more = sign_in(new_session, "123", "456")
    make_due(redis, sids["carol"])
    response = select(admin_client, *sids.values(), *more)
    assert asked(response) == 3
    assert "2 sessions that were chosen are over already" in Page(response).text
    online.end(more[0])
    messages = told(answer(admin_client, response))
    assert "2 sessions were ended." in messages
    assert "3 sessions were not ended: they were over already." in messages
    # A second answer to the same question ends nothing and says so, too.
    new_session("123")
    listed = admin_client.get(f"{CONFIRM}?user=123")
    assert told(answer(admin_client, listed)).startswith("1 session of ")
    lines = LogEntry.objects.count()
    for question in (response, listed):
        messages = told(answer(admin_client, question))
        assert messages
        assert "ended" not in messages.replace("not ended", "")
    assert LogEntry.objects.count() == lines


def test_who_is_no_staff_or_may_not_view_sees_and_ends_nothing(client, users, sids) -> None:
    customer = Client()
    customer.force_login(users["alice"])
    users["alice"].user_permissions.set(Permission.objects.filter(codename__in=MAY_END))
    refused = [(client, 302), (customer, 302)]
    of_users = ("add_user", "change_user", "delete_user", "view_user")
    for permissions in ((), ("end_onlinesession", "end_all_onlinesession"), ("view_session_data",), of_users):
        refused.append((staff(Client(), *permissions, name=f"staff{len(refused)}"), 403))
    for whoever, status in refused:
        answers = [whoever.get(url) for url in (LIST, page_of(sids["bob"]), CONFIRM)]
        posted = ({"sids": sids["bob"]}, {"latest": LATER}, {"latest": LATER, "query": f"user={users['bob'].pk}"})
        answers += [*(whoever.post(END, fields) for fields in posted), select(whoever, sids["bob"])]
        for response in answers:
            assert response.status_code == status
            assert status == 403 or response.headers["Location"].startswith("/admin/login/")
    assert set(sids.values()) < left()
    assert not LogEntry.objects.exists()


def test_who_may_only_view_or_no_longer_end_is_offered_nothing_and_ends_nothing(client, users, sids) -> None:
    staff(client, *MAY_END)
    question = client.get(CONFIRM)
    User.objects.get(username="staff").user_permissions.clear()
    assert answer(client, question).status_code == 403
    staff(client, "view_onlinesession", "view_session_data", name="viewer")
    for url in (LIST, page_of(sids["bob"])):
        response = client.get(url)
        assert response.status_code == 200
        assert "end_selected" not in response.text
        assert "confirm/" not in response.text
    for url in (CONFIRM, f"{CONFIRM}?sid={sids['bob']}", f"{CONFIRM}?user={users['bob'].pk}"):
        assert client.get(url).status_code == 403
    for fields in ({"sids": sids["bob"]}, {"latest": LATER}):
        assert client.post(END, fields).status_code == 403
    select(client, sids["bob"])
    select_all(client)
    assert set(sids.values()) < left()


def test_only_a_post_with_the_token_that_the_page_brings_ends_and_only_a_get_asks(
    admin_client, admin_user, sids
) -> None:
    for method in ("get", "head", "put", "delete", "options", "patch"):
        response = getattr(admin_client, method)(f"{END}?sids={sids['bob']}&latest={LATER}")
        assert response.status_code == 405
        assert response.headers["Allow"] == "POST"
    for method in ("post", "put", "delete"):
        assert getattr(admin_client, method)(f"{CONFIRM}?sid={sids['bob']}").status_code == 405
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    for fields in ({"sids": sids["bob"]}, {"latest": LATER}):
        assert client.post(END, fields).status_code == 403
    assert select(client, sids["bob"]).status_code == 403
    assert set(sids.values()) < left()
    answer(client, client.get(f"{CONFIRM}?sid={sids['bob']}"))
    assert sids["bob"] not in left()


def test_each_user_has_a_line_of_history_and_guests_one(admin_client, admin_user, users, sids, new_session) -> None:
    more = new_session(str(users["bob"].pk)).sid
    guests = [new_session(colour="blue").sid for _ in range(3)]
    chosen = (sids["alice"], sids["bob"], more, *guests)
    # Who is deleted has one, too, and a message can forge none.
    alice = str(users["alice"].pk)
    users["alice"].delete()
    answer(admin_client, select(admin_client, *chosen, query="?guests=true"), message="Closing\r\n<b>time\u2028</b>")
    assert LogEntry.objects.count() == 3
    page = admin_client.get(f"/admin/auth/user/{users['bob'].pk}/history/")
    text = Page(page).text.partition("Action")[2]
    assert "admin" in text
    assert "<b>time" not in page.text
    assert "Ended 2 sessions. Message: Closing <b>time </b>" in text
    assert LogEntry.objects.get(object_id=alice).change_message.startswith("Ended 1 session. Message: Closing")
    # Guests have one together.
    entry = LogEntry.objects.get(content_type=ContentType.objects.get_for_model(OnlineSession))
    assert (entry.user, entry.object_id) == (admin_user, None)
    assert entry.change_message == "Ended 3 sessions of guests. Message: Closing <b>time </b>"
    # Where the newest lines are shown.
    assert admin_client.get("/admin/").status_code == 200


@pytest.mark.parametrize("listed", [False, True], ids=["named", "listed"])
def test_more_users_than_history_has_lines_for_share_one(admin_client, sids, new_session, monkeypatch, listed) -> None:
    monkeypatch.setattr(log_entries, "ENTRIES_MAX", 3)
    new = [new_session(str(User.objects.create_user(f"more{number}").pk)).sid for number in range(2)]
    response = admin_client.get(CONFIRM) if listed else select(admin_client, *sids.values(), *new)
    answer(admin_client, response, message="Closing time")
    entry = LogEntry.objects.get()
    assert entry.content_type == ContentType.objects.get_for_model(OnlineSession)
    named = ", ".join(str(user.pk) for user in User.objects.all() if user != entry.user)
    assert entry.change_message.startswith("Ended sessions: 5, of users: 5. Ids of users: ")
    assert entry.change_message.endswith(". Message: Closing time")
    ids = entry.change_message.removesuffix(". Message: Closing time").rpartition(": ")[2]
    assert sorted(ids.split(", ")) == sorted(named.split(", "))


def test_history_holds_neither_session_keys_nor_addresses(admin_client, new_session) -> None:
    User.objects.create_user("dave", password="secret")
    shopper = Client(REMOTE_ADDR="198.51.100.9")
    shopper.post("/login/", {"username": "dave", "password": "secret"})
    guest = new_session(colour="blue")
    secret = [shopper.session.session_key, guest.session_key, admin_client.session.session_key, "198.51.100.9"]
    answer(admin_client, admin_client.get(CONFIRM + "?guests=true"), message="Closing time", own="on")
    entries = list(LogEntry.objects.values("change_message", "object_repr", "object_id"))
    assert len(entries) == 3
    assert not [text for text in secret if text in repr(entries)]


def test_a_guest_who_signs_in_as_a_superuser_in_the_last_moment_stays(client, new_session, monkeypatch) -> None:
    root, guest = User.objects.create_superuser("root"), new_session(colour="blue")
    staff(client, "view_onlinesession", "end_onlinesession")
    question = client.get(CONFIRM, {"sid": guest.sid})
    every = OnlineSessionAdmin.has_view_permission

    def has_view_permission(self: Any, request: Any, obj: Any = None) -> bool:
        if obj is not None and "_auth_user_id" not in guest:
            guest["_auth_user_id"] = str(root.pk)
            guest.save()
        return every(self, request, obj)

    monkeypatch.setattr(OnlineSessionAdmin, "has_view_permission", has_view_permission)
    answer(client, question)
    assert online.get(guest.sid) is not None


def test_an_end_or_a_request_meanwhile_makes_a_walk_skip_and_repeat_none(new_session, monkeypatch) -> None:
    monkeypatch.setattr(ending_of_many, "AT_ONCE_MAX", 2)
    sids = [new_session(str(number)).sid for number in range(6)]
    stays, asked = sids[:1], list[str]()

    def choose(sessions: list[online.Session]) -> list[str]:
        asked.extend(session.sid for session in sessions)
        return [session.sid for session in sessions if session.sid not in (sids[0], sids[-1])]

    position = None
    while True:
        work = ending_of_many.BulkEnding(SessionFilter(), choose=choose, position=position)
        work.end_within(limit=1)
        if work.done:
            break
        # Another request goes on with a new object.
        position = work.position
        online.end(sids[-1])
    assert [each.sid for each in online.sessions()] == stays
