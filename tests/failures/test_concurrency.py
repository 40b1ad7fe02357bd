"""Requests at the same time: writers of one session, sign-outs and kicks under way, and every change of the key."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import update_last_login
from django.contrib.auth.signals import user_logged_in
from django.contrib.sessions.backends.base import UpdateError
from django.test import Client

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from django_redsess.session import saving
from django_redsess.transport.keys import sid_of
from tests.helpers.behind import have_agreed, make_older, names_of_sessions, stored, traces
from tests.helpers.serving import Answer, Site, serving
from tests.helpers.site import MIDDLEWARE, VIEWED_VIEWS
from tests.helpers.site.people import person

pytestmark = pytest.mark.both_servers

WRITERS = 50


@pytest.fixture
def site(settings: Any) -> Iterator[Site]:
    """The site of tests/helpers/site, served by real threads."""
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    settings.MIDDLEWARE = MIDDLEWARE
    settings.AUTHENTICATION_BACKENDS = ["tests.helpers.site.people.InMemory"]
    settings.REDSESS = {**settings.REDSESS, "VIEWED_VIEWS": VIEWED_VIEWS}
    # Its users are in no table.
    user_logged_in.disconnect(dispatch_uid="update_last_login")
    with serving() as site:
        yield site
    user_logged_in.connect(update_last_login, dispatch_uid="update_last_login")


@pytest.fixture
def guest(site: Site, partitions: int) -> str:
    """The cookie of a guest whose session holds a colour."""
    return site.ask("/held/write/colour/blue/").cookie


@pytest.fixture
def member(site: Site, guest: str) -> str:
    """The cookie of user 1, whose session holds a colour."""
    return site.ask("/held/sign-in/1/", guest).cookie


def users_online() -> list[str]:
    return sorted(session.user_id for session in online.sessions())


def statuses(answers: list[Answer]) -> list[int]:
    return sorted(answer.status for answer in answers)


def run_together(*actions: Callable[[], object]) -> None:
    """Run each in a thread of its own, all started at the same moment; raise what one of them raised."""
    barrier = threading.Barrier(len(actions))
    errors: list[BaseException] = []

    def run(action: Callable[[], object]) -> None:
        barrier.wait()
        try:
            action()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


# 50 writers


def test_fifty_requests_that_each_set_their_own_key_leave_fifty_keys(site: Site, guest: str) -> None:
    answers = site.ask_together(*[(f"/held/write/key-{number}/{number}/", guest) for number in range(WRITERS)])
    assert statuses(answers) == [200] * WRITERS
    assert dict(SessionStore(guest).items()) == {
        "colour": "blue",
        **{f"key-{number}": str(number) for number in range(WRITERS)},
    }


def test_requests_that_set_and_remove_keys_of_their_own_leave_what_each_wanted(site: Site, guest: str) -> None:
    session = SessionStore(guest)
    session.update({f"old-{number}": 1 for number in range(10)})
    session.save()
    late = [SessionStore(guest) for _ in range(10)]
    for opened in late:
        opened.get("colour")
    for number, opened in enumerate(late):
        opened[f"new-{number}"] = 1
        del opened[f"old-{number}"]
    run_together(*[opened.save for opened in late])
    assert sorted(SessionStore(guest).keys()) == ["colour", *[f"new-{number}" for number in range(10)]]


@pytest.mark.slow
def test_fifty_writers_for_ten_seconds_lose_nothing_and_none_waits_five_seconds(site: Site) -> None:
    cookie = site.ask("/held/write/colour/blue/").cookie
    until = time.monotonic() + 10
    rounds = [0] * WRITERS
    slowest = [0.0] * WRITERS

    def write(writer: int) -> None:
        while (started := time.monotonic()) < until:
            answer = site.ask(f"/held/count/key-{writer}/", cookie)
            slowest[writer] = max(slowest[writer], time.monotonic() - started)
            # Each round finds what the one before wrote.
            assert (answer.status, answer.text) == (200, str(rounds[writer]))
            rounds[writer] += 1

    run_together(*[partial(write, writer) for writer in range(WRITERS)])
    written = {f"key-{writer}": number for writer, number in enumerate(rounds)}
    assert dict(SessionStore(cookie).items()) == {"colour": "blue", **written}
    # The whole request, of which the save is a part.
    assert max(slowest) < 5


# Sign-out and kick between another request's load and its save

LATE: dict[str, Callable[[SessionStore], object]] = {
    "change": lambda session: session.update({"colour": "red"}),
    "remove": lambda session: session.pop("colour"),
    "clear": lambda session: session.clear(),
    "rotate": lambda session: session.cycle_key(),
    "sign in again": lambda session: session.update({"_auth_user_id": "7"}),
    "switch user": lambda session: (session.cycle_key(), session.update({"_auth_user_id": "8"})),
}


def test_too_many_writers_of_one_session_are_told_from_an_outage(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(saving, "SAVE_SECONDS_MAX", 0.05)
    cookie = site.ask(f"/held/write/text/{'x' * 20_000}/").cookie
    answers: list[Answer] = []

    def write(number: int) -> None:
        answers.extend(site.ask(f"/held/write/{number}-{turn}/x/", cookie) for turn in range(10))

    run_together(*(partial(write, number) for number in range(30)))
    assert set(statuses(answers)) == {200, 503}
    given_up = [record for record in caplog.records if "Too many requests change session" in record.getMessage()]
    assert len(given_up) == statuses(answers).count(503)
    assert {record.levelname for record in given_up} == {"WARNING"}
    assert [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")] == []
    assert len(SessionStore(cookie).keys()) == 1 + statuses(answers).count(200)


@pytest.mark.parametrize("user", ["", "7"], ids=["guest", "member"])
def test_a_save_after_a_sign_out_never_brings_the_session_back(redis, partitions, new_session, user: str) -> None:
    keys = []
    # 500 for guests and 500 for members, a quarter of them with one partition and asynchronous, and so on.
    for number, what in zip(range(250), itertools.cycle(LATE.values()), strict=False):
        session = new_session(user, colour="blue")
        keys.append(session.session_key)
        late = SessionStore(session.session_key)
        late.get("colour")
        viewed.record(late, "lamp")
        SessionStore(session.session_key).flush()
        what(late)
        with pytest.raises(UpdateError):
            async_to_sync(late.asave)() if number % 2 else late.save()
        keys.append(late.session_key)
        assert not viewed.record(late, "lamp")
    assert stored(redis) == 0
    assert [key for key in keys if key and SessionStore(key).load()] == []
    assert [key for key in (keys[0], keys[-2], keys[-1]) if key and traces(redis, key)] == []
    assert names_of_sessions(redis) == []


@pytest.mark.parametrize(
    "path", ["/held/write/colour/red/", "/held/write-and-save/colour/red/", "/held/cycle/", "/held/sign-in/1/"]
)
@pytest.mark.parametrize("end", ["sign-out", "kick"])
def test_a_request_whose_session_ends_meanwhile_is_answered_400(
    site: Site, redis, member: str, path: str, end: str
) -> None:
    let_on = site.ask_held(path, member)
    if end == "kick":
        assert [ended.user_id for ended in online.end(sid_of(member))] == ["1"]
    else:
        assert site.ask("/held/sign-out/", member) == Answer(200, "done", "")
    answer = let_on()
    assert (answer.status, answer.cookie) == (400, None)
    assert traces(redis, member) == []
    assert stored(redis) == 0


@pytest.mark.parametrize("path", ["/held/who/", "/held/read/colour/"])
def test_a_request_that_only_reads_is_finished_though_its_session_ends_meanwhile(
    site: Site, redis, member: str, path: str
) -> None:
    let_on = site.ask_held(path, member)
    site.ask("/held/sign-out/", member)
    assert (let_on().status, stored(redis)) == (200, 0)


@pytest.mark.parametrize("end", ["sign-out", "kick"])
def test_viewing_an_item_does_not_bring_a_session_back_that_ends_meanwhile(
    site: Site, redis, member: str, end: str
) -> None:
    site.ask("/held/item/lamp/", member)
    let_on = site.ask_held("/held/item/vase/", member)
    if end == "kick":
        online.end(sid_of(member))
    else:
        site.ask("/held/sign-out/", member)
    assert let_on().status == 200
    assert traces(redis, member) == []
    assert viewed.popular() == [("lamp", 1)]


def test_two_sign_outs_at_once_are_both_well(site: Site, redis, member: str) -> None:
    answers = site.ask_together(*[("/held/sign-out/", member)] * 2)
    assert statuses(answers) == [200, 200]
    assert (stored(redis), traces(redis, member)) == (0, [])


def test_a_kick_in_the_middle_of_writes_and_views_leaves_nothing(redis, partitions, new_session) -> None:
    for number in range(60):
        session = new_session("7", colour="blue")
        key = session.session_key
        started = threading.Event()

        def write(key: str = key, started: threading.Event = started) -> None:
            for count in itertools.count():
                late = SessionStore(key)
                late["count"] = count
                if late.session_key is None:
                    return
                try:
                    late.save()
                except UpdateError:
                    return
                started.set()

        def view(session: SessionStore = session) -> None:
            for count in itertools.count():
                if not viewed.record(session, count):
                    return

        def kick(sid: str = session.sid, started: threading.Event = started, number: int = number) -> None:
            started.wait()
            time.sleep(number % 10 / 5000)
            online.end(sid)

        run_together(write, view, kick)
        assert traces(redis, key) == []
    assert stored(redis) == 0


# Two at once change the key


def test_two_sign_ins_of_one_guest_are_both_signed_in(site: Site, redis, guest: str) -> None:
    answers = site.ask_together(*[("/held/sign-in/1/", guest)] * 2)
    assert statuses(answers) == [200, 200]
    cookies = {answer.cookie for answer in answers}
    assert len(cookies | {guest}) == 3
    assert [site.ask("/held/who/", cookie).text for cookie in cookies] == ["1", "1"]
    assert "blue" in [site.ask("/held/read/colour/", cookie).text for cookie in cookies]
    assert (users_online(), stored(redis)) == (["1", "1"], 2)
    assert traces(redis, guest) == []


def test_five_sign_ins_of_one_guest_as_different_users_are_all_signed_in(site: Site, redis, guest: str) -> None:
    site.ask("/held/item/lamp/", guest)
    answers = site.ask_together(*[(f"/held/sign-in/{user_id}/", guest) for user_id in range(1, 6)])
    assert statuses(answers) == [200] * 5
    assert [site.ask("/held/who/", answer.cookie).text for answer in answers] == ["1", "2", "3", "4", "5"]
    assert (users_online(), stored(redis)) == (["1", "2", "3", "4", "5"], 5)
    # What the guest viewed goes to one of them.
    assert [[item.item for item in viewed.recent(session.sid)] for session in online.sessions()].count(["lamp"]) == 1
    assert traces(redis, guest) == []


def test_one_of_two_rotations_of_a_member_wins(site: Site, redis, member: str) -> None:
    login_at = online.get(sid_of(member)).login_at
    winner, loser = sorted(site.ask_together(*[("/held/cycle/", member)] * 2))
    assert (winner.status, loser.status, loser.cookie) == (200, 400, None)
    assert site.ask("/held/who/", winner.cookie).text == "1"
    assert [(session.sid, session.login_at) for session in online.sessions()] == [(sid_of(winner.cookie), login_at)]
    assert stored(redis) == 1
    assert traces(redis, member) == []


def test_one_of_two_rotations_of_a_guest_wins(site: Site, redis, guest: str) -> None:
    winner, loser = sorted(site.ask_together(*[("/held/cycle/", guest)] * 2))
    assert (winner.status, loser.status, loser.cookie) == (200, 400, None)
    assert site.ask("/held/read/colour/", winner.cookie).text == "blue"
    assert stored(redis) == 1


def test_one_of_many_rotations_of_a_member_wins(partitions, redis, new_session) -> None:
    for _ in range(20):
        key = new_session("7", colour="blue").session_key
        outcomes: list[str] = []

        def rotate(key: str = key, outcomes: list[str] = outcomes) -> None:
            session = SessionStore(key)
            session.get("colour")
            session.cycle_key()
            try:
                session.save()
                outcomes.append(session.session_key)
            except UpdateError:
                outcomes.append("")

        run_together(*[rotate] * 6)
        # A load that came too late finds no session, and its save has nothing to move.
        [winner] = [outcome for outcome in outcomes if outcome and SessionStore(outcome).load()]
        assert [session.sid for session in online.sessions()] == [sid_of(winner)]
        online.end(sid_of(winner))


def test_a_sign_in_keeps_what_another_request_wrote_meanwhile(site: Site, redis, guest: str) -> None:
    let_on = site.ask_held("/held/sign-in/1/", guest)
    assert site.ask("/held/write/size/large/", guest).status == 200
    cookie = let_on().cookie
    paths = "/held/who/", "/held/read/colour/", "/held/read/size/"
    assert [site.ask(path, cookie).text for path in paths] == ["1", "blue", "large"]
    assert (users_online(), stored(redis)) == (["1"], 1)


def test_a_write_that_finds_the_guest_signed_in_meanwhile_is_answered_400(site: Site, redis, guest: str) -> None:
    let_on = site.ask_held("/held/write/colour/red/", guest)
    cookie = site.ask("/held/sign-in/1/", guest).cookie
    answer = let_on()
    assert (answer.status, answer.cookie) == (400, None)
    assert site.ask("/held/read/colour/", cookie).text == "blue"
    assert (users_online(), stored(redis)) == (["1"], 1)


def test_a_sign_in_finds_the_guests_session_ended_meanwhile(site: Site, redis, guest: str) -> None:
    let_on = site.ask_held("/held/sign-in/1/", guest)
    online.end(sid_of(guest))
    answer = let_on()
    assert (answer.status, answer.cookie, stored(redis)) == (400, None, 0)


@pytest.mark.parametrize("path", ["/held/who/", "/held/write/size/large/"])
def test_of_parallel_requests_after_a_new_secret_key_one_wins(
    site: Site, settings: Any, redis, member: str, path: str
) -> None:
    login_at = online.get(sid_of(member)).login_at
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "the shop's second key"
    have_agreed()
    # Each asks for the user first, which rotates the key; a write alone does not.
    paths = [(path, member), *[("/held/who/", member)] * 4]
    answers = site.ask_together(*paths)
    assert set(statuses(answers)) <= {200, 400}
    [cookie] = {answer.cookie for answer in answers} - {None, member}
    settings.SECRET_KEY_FALLBACKS = []
    assert [site.ask(asked, cookie).text for asked in ("/held/who/", "/held/read/colour/")] == ["1", "blue"]
    assert [(session.sid, session.login_at) for session in online.sessions()] == [(sid_of(cookie), login_at)]
    assert stored(redis) == 1


def test_a_request_during_a_change_of_password_is_answered_400(site: Site, redis, member: str) -> None:
    let_on = site.ask_held("/held/write/size/large/", member)
    cookie = site.ask("/held/change-password/second/", member).cookie
    answer = let_on()
    assert (answer.status, answer.cookie) == (400, None)
    assert site.ask("/held/who/", cookie).text == "1"
    assert (users_online(), stored(redis)) == (["1"], 1)


def test_a_change_of_password_keeps_what_another_request_wrote_meanwhile(site: Site, redis, member: str) -> None:
    let_on = site.ask_held("/held/change-password/second/", member)
    site.ask("/held/write/size/large/", member)
    cookie = let_on().cookie
    assert [site.ask(path, cookie).text for path in ("/held/who/", "/held/read/size/")] == ["1", "large"]
    assert (users_online(), stored(redis)) == (["1"], 1)


def test_a_change_of_password_signs_the_users_other_sessions_out(site: Site, redis, member: str) -> None:
    other = site.ask("/held/sign-in/1/").cookie
    cookie = site.ask("/held/change-password/second/", member).cookie
    assert (site.ask("/held/who/", other).text, site.ask("/held/who/", cookie).text) == ("nobody", "1")
    assert (users_online(), stored(redis)) == (["1"], 1)


def test_a_request_during_a_switch_of_users_is_answered_400(site: Site, redis, member: str) -> None:
    let_on = site.ask_held("/held/write/size/large/", member)
    cookie = site.ask("/held/sign-in/2/", member).cookie
    answer = let_on()
    assert (answer.status, answer.cookie) == (400, None)
    paths = "/held/who/", "/held/read/colour/", "/held/read/size/"
    assert [site.ask(path, cookie).text for path in paths] == ["2", "None", "None"]
    assert (users_online(), stored(redis)) == (["2"], 1)
    assert traces(redis, member) == []


def test_two_switches_of_users_at_once_leave_nothing_of_the_first(site: Site, redis, member: str) -> None:
    answers = site.ask_together(("/held/sign-in/2/", member), ("/held/sign-in/3/", member))
    assert set(statuses(answers)) <= {200, 400}
    signed_in = [answer.cookie for answer in answers if answer.status == 200]
    assert sorted(site.ask("/held/who/", cookie).text for cookie in signed_in) == users_online()
    assert (stored(redis), traces(redis, member)) == (len(signed_in), [])
    assert "1" not in users_online()


def test_a_request_during_a_forced_sign_in_is_answered_400(site: Site, redis, guest: str) -> None:
    let_on = site.ask_held("/held/write/size/large/", guest)
    client = Client()
    client.cookies["sessionid"] = guest
    client.force_login(person(1))
    answer = let_on()
    assert (answer.status, answer.cookie) == (400, None)
    cookie = client.cookies["sessionid"].value
    assert [site.ask(path, cookie).text for path in ("/held/who/", "/held/read/colour/")] == ["1", "blue"]
    assert (users_online(), stored(redis)) == (["1"], 1)


def test_signing_in_again_as_the_same_user_sets_a_new_login_time_in_every_key(site: Site, redis, member: str) -> None:
    [before] = online.sessions()
    time.sleep(0.01)
    answer = site.ask("/held/sign-in/1/", member)
    assert answer.status == 200
    [after] = online.sessions(user_ids=["1"])
    assert after.login_at > before.login_at
    assert (online.sessions(), stored(redis)) == ([after], 1)
    assert site.ask("/held/who/", answer.cookie).text == "1"


def test_two_at_once_sign_in_again_as_the_same_user(site: Site, redis, member: str) -> None:
    answers = site.ask_together(*[("/held/sign-in/1/", member)] * 2)
    assert statuses(answers) == [200, 200]
    # Both keys are new, and each has a session: as when a guest does so.
    assert len({member, *(answer.cookie for answer in answers)}) == 3
    assert [site.ask("/held/who/", answer.cookie).text for answer in answers] == ["1", "1"]
    assert (users_online(), stored(redis), traces(redis, member)) == (["1", "1"], 2, [])


def test_a_sign_out_while_a_rotation_is_under_way_leaves_nobody_signed_in(site: Site, redis, member: str) -> None:
    let_on = site.ask_held("/held/cycle/", member)
    site.ask("/held/sign-out/", member)
    answer = let_on()
    assert (answer.status, answer.cookie) == (400, None)
    assert (stored(redis), traces(redis, member)) == (0, [])


def test_a_sign_out_that_finds_the_key_rotated_meanwhile_is_refused_or_done(site: Site, redis, member: str) -> None:
    let_on = site.ask_held("/held/sign-out/", member)
    rotated = site.ask("/held/cycle/", member).cookie
    answer = let_on()
    # What must not be: the page says "signed out", and somebody is signed in still.
    if answer.status == 200:
        assert site.ask("/held/who/", rotated).text == "nobody"
        assert (users_online(), stored(redis)) == ([], 0)
    else:
        assert (answer.status, answer.cookie) == (400, None)
        assert site.ask("/held/who/", rotated).text == "1"


# A late request: it still brings the cookie of before


@pytest.fixture(params=["guest signs in", "member rotates"])
def late(request: pytest.FixtureRequest, site: Site, guest: str) -> Iterator[str]:
    """A cookie whose session has another key by now; afterwards that session must be as it was."""
    cookie, path = guest, "/held/sign-in/1/"
    if request.param == "member rotates":
        cookie, path = site.ask("/held/sign-in/1/", guest).cookie, "/held/cycle/"
    rotated = site.ask(path, cookie).cookie
    yield cookie
    assert [site.ask(asked, rotated).text for asked in ("/held/who/", "/held/read/colour/")] == ["1", "blue"]


@pytest.mark.parametrize("every_request", [False, True], ids=["", "saved every request"])
@pytest.mark.parametrize(
    ("path", "text"), [("/held/who/", "nobody"), ("/held/read/colour/", "None"), ("/held/item/lamp/", "done")]
)
def test_a_late_request_is_signed_out_and_leaves_the_cookie_alone(
    site: Site, settings: Any, redis, late: str, path: str, text: str, every_request: bool
) -> None:
    settings.SESSION_SAVE_EVERY_REQUEST = every_request
    assert site.ask(path, late) == Answer(200, text, None)
    assert stored(redis) == 1
    assert viewed.popular() == []


@pytest.mark.parametrize("path", ["/held/write/colour/red/", "/held/write-and-save/colour/red/"])
def test_a_late_request_of_a_user_that_writes_is_answered_400(site: Site, redis, member: str, path: str) -> None:
    site.ask("/held/cycle/", member)
    answer = site.ask(path, member)
    assert (answer.status, answer.cookie) == (400, None)
    assert stored(redis) == 1


@pytest.mark.parametrize("path", ["/held/sign-out/", "/held/cycle/"])
def test_a_late_request_can_neither_end_nor_rotate_anything(site: Site, redis, late: str, path: str) -> None:
    answer = site.ask(path, late)
    assert (answer.status in (200, 400), answer.cookie) == (True, None)
    assert (users_online(), stored(redis)) == (["1"], 1)


@pytest.mark.parametrize("user", ["1", "2"])
def test_a_late_request_that_signs_in_gets_a_fresh_session(site: Site, redis, late: str, user: str) -> None:
    answer = site.ask(f"/held/sign-in/{user}/", late)
    assert answer.status == 200
    assert [site.ask(path, answer.cookie).text for path in ("/held/who/", "/held/read/colour/")] == [user, "None"]
    assert (users_online(), stored(redis)) == (["1", user], 2)


def test_a_slow_answer_does_not_refresh_the_cookie_to_an_older_key(
    site: Site, settings: Any, redis, member: str
) -> None:
    settings.REDSESS = {**settings.REDSESS, "SLIDING": True, "TOUCH_INTERVAL": 0}
    settings.SESSION_COOKIE_AGE = 4000
    cookie = site.ask("/held/write/colour/red/", member).cookie
    # More than a tenth of its age: now an answer refreshes the cookie.
    make_older(redis, sid_of(cookie), 500)
    assert site.ask("/held/read/colour/", cookie).cookie == cookie
    make_older(redis, sid_of(cookie), 500)
    let_on = site.ask_held("/held/read/colour/", cookie)
    rotated = site.ask("/held/cycle/", cookie).cookie
    assert rotated != cookie
    assert let_on() == Answer(200, "red", None)


def test_a_slow_answer_that_saves_every_request_does_not_set_an_older_key(
    site: Site, settings: Any, redis, member: str
) -> None:
    settings.SESSION_SAVE_EVERY_REQUEST = True
    let_on = site.ask_held("/held/read/colour/", member)
    site.ask("/held/cycle/", member)
    answer = let_on()
    assert (answer.status, answer.cookie) == (400, None)
    assert stored(redis) == 1
