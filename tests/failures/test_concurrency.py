"""Requests at the same time: writers of one session, sign-outs and kicks under way, and every change of the key."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from asgiref.sync import async_to_sync
from django.contrib.sessions.backends.base import UpdateError

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from django_redsess.session import saving
from tests.helpers.serving import Answer, Site, serving
from tests.helpers.site import MIDDLEWARE, VIEWED_VIEWS
from tests.helpers.store import have_agreed, make_older, names_of_sessions, sid_of, stored, traces

pytestmark = pytest.mark.both_servers

WRITERS = 50


@pytest.fixture
def site(settings, users_in_no_table) -> Iterator[Site]:
    """The site of tests/helpers/site, served by real threads."""
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    settings.MIDDLEWARE = MIDDLEWARE
    settings.REDSESS = {**settings.REDSESS, "VIEWED_VIEWS": VIEWED_VIEWS}
    with serving() as site:
        yield site


@pytest.fixture
def guest(site, partitions: int) -> str:
    """The cookie of a guest whose session holds a colour."""
    return site.ask("/held/write/colour/blue/").cookie


@pytest.fixture
def member(site, guest: str) -> str:
    """The cookie of user 1, whose session holds a colour."""
    return site.ask("/held/sign-in/1/", guest).cookie


@pytest.fixture
def cookie(request, site, guest: str) -> str:
    """The cookie of the guest, or of the member."""
    return guest if request.param == "guest" else site.ask("/held/sign-in/1/", guest).cookie


def users_online() -> list[str]:
    return sorted(session.user_id for session in online.sessions())


def statuses(answers: list[Answer]) -> list[int]:
    return sorted(answer.status for answer in answers)


def run_together(*actions: Callable[[], object]) -> None:
    """Run each in a thread of its own, all started at the same moment; raise what one of them raised."""
    barrier = threading.Barrier(len(actions))

    def run(action: Callable[[], object]) -> None:
        barrier.wait()
        action()

    with ThreadPoolExecutor(len(actions)) as pool:
        list(pool.map(run, actions))


def texts(site: Site, cookie: str | None, *paths: str) -> list[str]:
    """Return what a visitor with this cookie is answered: who it is, the colour, and what else is asked for."""
    return [site.ask(path, cookie).text for path in ("/held/who/", "/held/read/colour/", *paths)]


def test_fifty_requests_that_each_set_their_own_key_leave_fifty_keys(site, guest: str) -> None:
    answers = site.ask_together(*[(f"/held/write/key-{number}/{number}/", guest) for number in range(WRITERS)])
    assert statuses(answers) == [200] * WRITERS
    written = {f"key-{number}": str(number) for number in range(WRITERS)}
    assert dict(SessionStore(guest).items()) == {"colour": "blue", **written}


@pytest.mark.slow
def test_fifty_writers_at_it_for_six_seconds_lose_nothing_and_none_gives_up(site) -> None:
    cookie = site.ask("/held/write/colour/blue/").cookie
    until = time.monotonic() + 6
    rounds = [0] * WRITERS

    def write(writer: int) -> None:
        while time.monotonic() < until:
            answer = site.ask(f"/held/count/key-{writer}/", cookie)
            # Each round finds what the one before wrote. One that waits too long gives up: that is no 200.
            assert (answer.status, answer.text) == (200, str(rounds[writer]))
            rounds[writer] += 1

    run_together(*[partial(write, writer) for writer in range(WRITERS)])
    written = {f"key-{writer}": number for writer, number in enumerate(rounds)}
    assert dict(SessionStore(cookie).items()) == {"colour": "blue", **written}


LATE: dict[str, Callable[[SessionStore], object]] = {
    "change": lambda session: session.update({"colour": "red"}),
    "remove": lambda session: session.pop("colour"),
    "clear": lambda session: session.clear(),
    "rotate": lambda session: session.cycle_key(),
    "sign in again": lambda session: session.update({"_auth_user_id": "7"}),
    "switch user": lambda session: (session.cycle_key(), session.update({"_auth_user_id": "8"})),
}


def test_too_many_writers_of_one_session_are_told_from_an_outage(site, monkeypatch, caplog) -> None:
    monkeypatch.setattr(saving, "SAVE_SECONDS_MAX", 0.05)
    cookie = site.ask(f"/held/write/text/{'x' * 20_000}/").cookie
    answers: list[Answer] = []

    def write(number: int) -> None:
        answers.extend(site.ask(f"/held/write/{number}-{turn}/x/", cookie) for turn in range(6))

    run_together(*(partial(write, number) for number in range(20)))
    assert set(statuses(answers)) == {200, 503}
    given_up = [record for record in caplog.records if "Too many requests change session" in record.getMessage()]
    assert len(given_up) == statuses(answers).count(503)
    assert {record.levelname for record in given_up} == {"WARNING"}
    assert [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")] == []
    assert len(SessionStore(cookie).keys()) == 1 + statuses(answers).count(200)


@pytest.mark.parametrize("times", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_a_save_after_a_sign_out_never_brings_the_session_back(redis, partitions, new_session, times: int) -> None:
    keys = []
    for what, user, awaited in [*itertools.product(LATE.values(), ["", "7"], [False, True])] * times:
        session = new_session(user, colour="blue")
        keys.append(session.session_key)
        late = SessionStore(session.session_key)
        late.get("colour")
        viewed.record(late, "lamp")
        SessionStore(session.session_key).flush()
        what(late)
        with pytest.raises(UpdateError):
            async_to_sync(late.asave)() if awaited else late.save()
        keys.append(late.session_key)
        assert not viewed.record(late, "lamp")
    assert stored(redis) == 0
    assert [key for key in keys if key and SessionStore(key).load()] == []
    assert [key for key in (keys[0], keys[-2], keys[-1]) if key and traces(redis, key)] == []
    assert names_of_sessions(redis) == []


@pytest.mark.parametrize(
    ("cookie", "path", "status"),
    [
        *[("member", path, 200) for path in ("/held/who/", "/held/read/colour/", "/held/item/vase/")],
        *[("member", path, 400) for path in ("/held/write/colour/red/", "/held/write-and-save/colour/red/")],
        *[("member", path, 400) for path in ("/held/cycle/", "/held/sign-in/1/")],
        ("guest", "/held/sign-in/1/", 400),
    ],
    indirect=["cookie"],
)
@pytest.mark.parametrize("end", ["sign-out", "kick"])
def test_a_request_whose_session_ends_meanwhile_leaves_nothing(site, redis, cookie, path, status, end) -> None:
    site.ask("/held/item/lamp/", cookie)
    before = viewed.popular()
    let_on = site.ask_held(path, cookie)
    if end == "kick":
        assert len(online.end(sid_of(cookie))) == 1
    else:
        assert site.ask("/held/sign-out/", cookie) == Answer(200, "done", "")
    answer = let_on()
    assert (answer.status, answer.cookie) == (status, None)
    assert (stored(redis), traces(redis, cookie), viewed.popular()) == (0, [], before)


def test_two_sign_outs_at_once_are_both_well(site, redis, member: str) -> None:
    answers = site.ask_together(*[("/held/sign-out/", member)] * 2)
    assert statuses(answers) == [200, 200]
    assert (stored(redis), traces(redis, member)) == (0, [])


def test_a_kick_in_the_middle_of_writes_and_views_leaves_nothing(redis, partitions, new_session) -> None:
    for number in range(30):
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


def test_five_sign_ins_of_one_guest_as_different_users_are_all_signed_in(site, redis, guest: str) -> None:
    site.ask("/held/item/lamp/", guest)
    answers = site.ask_together(*[(f"/held/sign-in/{user_id}/", guest) for user_id in range(1, 6)])
    assert statuses(answers) == [200] * 5
    assert len({guest, *(answer.cookie for answer in answers)}) == 6
    assert [site.ask("/held/who/", answer.cookie).text for answer in answers] == ["1", "2", "3", "4", "5"]
    assert "blue" in [site.ask("/held/read/colour/", answer.cookie).text for answer in answers]
    assert (users_online(), stored(redis)) == (["1", "2", "3", "4", "5"], 5)
    # What the guest viewed goes to one of them.
    assert [[item.item for item in viewed.recent(session.sid)] for session in online.sessions()].count(["lamp"]) == 1
    assert traces(redis, guest) == []


@pytest.mark.parametrize(("cookie", "user"), [("guest", "nobody"), ("member", "1")], indirect=["cookie"])
def test_one_of_six_rotations_at_once_wins(site, redis, cookie: str, user: str) -> None:
    created_at = online.get(sid_of(cookie)).created_at
    winner, *losers = sorted(site.ask_together(*[("/held/cycle/", cookie)] * 6))
    assert winner.status == 200
    assert {(loser.status, loser.cookie) for loser in losers} == {(400, None)}
    assert texts(site, winner.cookie) == [user, "blue"]
    found = [(session.sid, session.created_at) for session in online.sessions(guests=True)]
    assert found == [(sid_of(winner.cookie), created_at)]
    assert (stored(redis), traces(redis, cookie)) == (1, [])


@pytest.mark.parametrize(
    ("cookie", "path"),
    [("guest", "/held/sign-in/1/"), ("member", "/held/change-password/second/")],
    indirect=["cookie"],
)
def test_a_new_key_keeps_what_another_request_wrote_meanwhile(site, redis, cookie: str, path: str) -> None:
    let_on = site.ask_held(path, cookie)
    assert site.ask("/held/write/size/large/", cookie).status == 200
    rotated = let_on().cookie
    assert texts(site, rotated, "/held/read/size/") == ["1", "blue", "large"]
    assert (users_online(), stored(redis)) == (["1"], 1)


@pytest.mark.parametrize(
    ("cookie", "path", "found"),
    [
        ("guest", "/held/sign-in/1/", ["1", "blue", "None"]),
        ("member", "/held/change-password/second/", ["1", "blue", "None"]),
        ("member", "/held/sign-in/2/", ["2", "None", "None"]),
    ],
    indirect=["cookie"],
    ids=["sign-in", "change of password", "switch of users"],
)
def test_a_write_that_finds_another_key_meanwhile_is_answered_400(site, redis, cookie: str, path: str, found) -> None:
    let_on = site.ask_held("/held/write/size/large/", cookie)
    rotated = site.ask(path, cookie).cookie
    answer = let_on()
    assert (answer.status, answer.cookie) == (400, None)
    assert texts(site, rotated, "/held/read/size/") == found
    assert (users_online(), stored(redis), traces(redis, cookie)) == ([found[0]], 1, [])


@pytest.mark.parametrize("path", ["/held/who/", "/held/write/size/large/"])
def test_of_parallel_requests_after_a_new_secret_key_one_wins(site, settings, redis, member: str, path: str) -> None:
    created_at = online.get(sid_of(member)).created_at
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "the shop's second key"
    have_agreed()
    # Each asks for the user first, which rotates the key; a write alone does not.
    paths = [(path, member), *[("/held/who/", member)] * 4]
    answers = site.ask_together(*paths)
    assert set(statuses(answers)) <= {200, 400}
    [cookie] = {answer.cookie for answer in answers} - {None, member}
    settings.SECRET_KEY_FALLBACKS = []
    assert texts(site, cookie) == ["1", "blue"]
    assert [(session.sid, session.created_at) for session in online.sessions()] == [(sid_of(cookie), created_at)]
    assert stored(redis) == 1


def test_two_switches_of_users_at_once_leave_nothing_of_the_first(site, redis, member: str) -> None:
    answers = site.ask_together(("/held/sign-in/2/", member), ("/held/sign-in/3/", member))
    assert set(statuses(answers)) <= {200, 400}
    signed_in = [answer.cookie for answer in answers if answer.status == 200]
    assert sorted(site.ask("/held/who/", cookie).text for cookie in signed_in) == users_online()
    assert (stored(redis), traces(redis, member)) == (len(signed_in), [])
    assert "1" not in users_online()


def test_two_at_once_sign_in_again_as_the_same_user(site, redis, member: str) -> None:
    answers = site.ask_together(*[("/held/sign-in/1/", member)] * 2)
    assert statuses(answers) == [200, 200]
    # Both keys are new, and each has a session: as when a guest does so.
    assert len({member, *(answer.cookie for answer in answers)}) == 3
    assert [site.ask("/held/who/", answer.cookie).text for answer in answers] == ["1", "1"]
    assert (users_online(), stored(redis), traces(redis, member)) == (["1", "1"], 2, [])


def test_a_sign_out_that_finds_the_key_rotated_meanwhile_is_refused_or_done(site, redis, member: str) -> None:
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


@pytest.fixture(params=["guest signs in", "member rotates"])
def late(request, site, guest: str) -> Iterator[str]:
    """A cookie whose session has another key by now; afterwards that session must be as it was."""
    cookie, path = guest, "/held/sign-in/1/"
    if request.param == "member rotates":
        cookie, path = site.ask("/held/sign-in/1/", guest).cookie, "/held/cycle/"
    rotated = site.ask(path, cookie).cookie
    yield cookie
    assert texts(site, rotated) == ["1", "blue"]


@pytest.mark.parametrize("every_request", [False, True], ids=["", "saved every request"])
def test_a_late_request_is_signed_out_and_changes_no_cookie_or_data(site, settings, redis, late, every_request) -> None:
    settings.SESSION_SAVE_EVERY_REQUEST = every_request
    for path, text in {"/held/who/": "nobody", "/held/read/colour/": "None", "/held/item/lamp/": "done"}.items():
        assert (path, site.ask(path, late)) == (path, Answer(200, text, None))
    for path in ("/held/sign-out/", "/held/cycle/"):
        answer = site.ask(path, late)
        assert (path, answer.status in (200, 400), answer.cookie) == (path, True, None)
    assert (users_online(), stored(redis), viewed.popular()) == (["1"], 1, [])


@pytest.mark.parametrize("user", ["1", "2"])
def test_a_late_request_that_signs_in_gets_a_fresh_session(site, redis, late: str, user: str) -> None:
    answer = site.ask(f"/held/sign-in/{user}/", late)
    assert answer.status == 200
    assert texts(site, answer.cookie) == [user, "None"]
    assert (users_online(), stored(redis)) == (["1", user], 2)


def test_a_slow_answer_does_not_set_the_cookie_to_an_older_key(site, settings, redis, member: str) -> None:
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
    settings.SESSION_SAVE_EVERY_REQUEST = True
    let_on = site.ask_held("/held/read/colour/", rotated)
    site.ask("/held/cycle/", rotated)
    answer = let_on()
    assert (answer.status, answer.cookie) == (400, None)
    assert stored(redis) == 1
