"""Who is online, as the public functions tell it, and ending sessions with them. Pages in depth: test_queries.py."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from benchmarks.fill import fill
from django_redsess import cleaning, online, viewed
from django_redsess.backend import SessionStore
from django_redsess.online import listing
from django_redsess.online.listing import SessionFilter, iterate_pages
from django_redsess.signals import EndedSession, Reason
from tests.helpers.online import notice_of, sign_in
from tests.helpers.store import (
    YET_TO_BE_BOUND,
    Binding,
    Client,
    Visit,
    dump,
    have_agreed,
    keyspace,
    make_bound,
    make_due,
    make_older,
    stored,
    text_of,
)

pytestmark = [pytest.mark.usefixtures("partitions"), pytest.mark.both_servers, pytest.mark.on_cluster]


def sids_of(sessions: list[online.Session]) -> list[str]:
    return [session.sid for session in sessions]


def rotate(session: SessionStore, user: str = "") -> str:
    """Give the session another key, and sign ``user`` in with that where one is named; return its new sid."""
    session.cycle_key()
    if user:
        session["_auth_user_id"] = user
    session.save()
    assert session.sid
    return session.sid


def users_apart() -> tuple[str, str]:
    """Name two users whose sessions are in different partitions, where there are several."""
    space = keyspace()
    others = [str(number) for number in range(1, 100) if space.of_user(str(number)) != space.of_user("0")]
    return "0", (others or ["1"])[0]


def test_a_session_tells_what_is_known_of_it(redis, new_session) -> None:
    session = SessionStore()
    session.visit = Visit(lambda: Client("192.0.2.1", "Mozilla"))
    session.update({"_auth_user_id": "7", "colour": "blue"})
    session.save()
    viewed.record(session, "lamp")
    viewed.record(session, "vase")
    found = online.get(session.sid)
    assert (found.sid, found.user_id, found.newest_item) == (session.sid, "7", "vase")
    assert found.device_bound is False
    assert (found.address, found.user_agent) == ("192.0.2.1", "Mozilla")
    assert found.size == 1024
    assert found.created_at == found.last_seen_at == found.expires_at - timedelta(days=14)
    assert found.expires_at.utcoffset() == timedelta(0)
    assert online.sessions() == online.find([session.sid]) == [found]


def test_a_limit_may_be_none_at_all_or_beyond_the_last_session(new_session) -> None:
    sign_in(new_session, *"abc")
    assert online.sessions(limit=0) == online.sessions(limit=-1) == online.sessions(offset=9_999, limit=10**15) == []
    assert len(online.sessions(limit=10**15)) == 3


@pytest.mark.parametrize("order", ["created_at", "-created_at", "-last_seen_at"])
def test_what_ends_between_two_pages_leaves_out_no_other_session(partitions, new_session, monkeypatch, order) -> None:
    monkeypatch.setattr(listing, "PAGE_SIZE", 3)
    for number in range(12):
        new_session(str(number))
    expected = [each.sid for each in online.sessions(order=order)]
    pages = iterate_pages(SessionFilter(), order, offset=1, limit=10)
    found = [each.sid for each in next(pages)]
    online.end(*expected[:4])
    found += [each.sid for page in pages for each in page]
    assert found == expected[1:11]


def test_sessions_are_found_in_the_order_in_which_they_are_named(new_session) -> None:
    sids = [new_session(user).sid for user in ("a", "", "b", "c", "", "d")]
    asked = [sids[3], "x" * 20, sids[0], "no sid", sids[5], sids[1], sids[4], sids[2]]
    assert sids_of(online.find(asked)) == [sids[3], sids[0], sids[5], sids[1], sids[4], sids[2]]


def test_a_session_that_is_due_is_not_found(redis, new_session) -> None:
    sids = sign_in(new_session, "a", "b")
    make_due(redis, sids[0])
    assert online.get(sids[0]) is None
    assert online.details(sids[0]) is None
    assert sids_of(online.find(sids, follow=True)) == [sids[1]]


def test_a_session_is_followed_over_several_keys_and_into_other_partitions(new_session) -> None:
    one, other = users_apart()
    session = new_session(colour="blue")
    sids = [session.sid, rotate(session, one), rotate(session, other), rotate(session)]
    assert online.find(sids[:3]) == []
    for asked in ([sids[0]], [sids[1]], [sids[2]], [sids[3]], sids):
        [found] = online.find(asked, follow=True)
        assert (found.sid, found.user_id) == (sids[-1], other)


def test_sessions_that_are_followed_come_in_the_order_in_which_they_are_named_and_many_are_ended(new_session) -> None:
    sessions = [new_session("7") for _ in range(260)]
    old = sids_of(sessions)
    new = [rotate(session) for session in sessions]
    assert sids_of(online.find(old, follow=True)) == new
    assert {ended.sid for ended in online.end(*old)} == set(new)
    assert online.count() == 0


def test_notes_that_go_in_a_circle_are_followed_once_round(redis) -> None:
    sids = ["a" * 20, "b" * 20, "c" * 20]
    for sid, other in zip(sids, [*sids[1:], sids[0]], strict=True):
        redis.set(keyspace().of_sid(sid).ended_of(sid), f"rotated {other}", ex=300)
    assert online.find(sids[:1], follow=True) == []
    assert online.end(sids[0]) == []
    assert online.end(*sids) == []


def test_of_user_takes_a_user_and_lists_the_newest_sign_in_first(new_session, django_user_model, db) -> None:
    user = django_user_model.objects.create(username="alice")
    sids = sign_in(new_session, str(user.pk), "other", str(user.pk), str(user.pk))
    assert sids_of(online.of_user(user)) == [sids[3], sids[2], sids[0]]
    assert sids_of(online.of_user(user, limit=2)) == [sids[3], sids[2]]


@pytest.mark.parametrize("asked", [None, {}, {"guests": True}, {"user_ids": ["a", "b"]}, {"active_seconds": 60}])
def test_pages_and_counts_leave_out_what_is_due_and_take_it_out(redis, new_session, asked: Any) -> None:
    sids = sign_in(new_session, "a", "b", "a", "b")
    make_due(redis, sids[1], sids[2])
    if asked is None:
        assert online.count() == 2
    else:
        assert sids_of(online.sessions(**asked)) == [sids[3], sids[0]]
    assert stored(redis) == 2


def test_a_page_takes_three_round_trips_at_most_and_a_count_one(round_trips, partitions, new_session) -> None:
    for number in range(24):
        new_session(f"{number}")
    online.count()
    round_trips()
    online.count()
    assert round_trips() == 1
    online.count(guests=True, active_seconds=60)
    assert round_trips() == 1
    for asked in (
        {},
        {"guests": True},
        {"order": "last_seen_at"},
        {"active_seconds": 60},
        {"user_ids": ["1", "2", "3"]},
    ):
        online.sessions(**asked)
        # Read, rarely read on, and looked up.
        assert round_trips() <= (1 if partitions == 1 else 3), asked
        online.sessions(**asked, offset=9_900)
        assert round_trips() <= (1 if partitions == 1 else 2), asked


def test_a_record_that_was_tampered_with_shows_no_details(redis, new_session, caplog) -> None:
    [sid] = sign_in(new_session, "a")
    login = keyspace().of_sid(sid).login
    redis.hset(login, sid, redis.hget(login, sid) + b"x")
    assert [(session.sid, session.user_id, session.address) for session in online.sessions()] == [(sid, "", "")]
    details = online.details(sid)
    assert (details.data, details.sizes) == (None, {})
    assert details.age_seconds == 14 * 24 * 3600
    assert "is not usable" in caplog.text


def test_details_of_a_bound_session_say_when_it_was_bound_and_proved(redis, new_session) -> None:
    session = new_session("7")
    assert (found := online.details(session.sid)) is not None
    assert (found.bound_at, found.proved_at) == (None, None)
    make_bound(redis, session.sid, binding=YET_TO_BE_BOUND)
    assert (found := online.details(session.sid)) is not None
    assert (found.bound_at, found.proved_at) == (None, None)
    binding = Binding(b"a device", 1_900_000_000_000, 1_900_000_300_000, bytes(33))
    make_bound(redis, session.sid, binding=binding.pack())
    assert (found := online.details(session.sid)) is not None
    assert (found.bound_at, found.proved_at) == tuple(
        datetime.fromtimestamp(at, UTC) for at in (1_900_000_000, 1_900_000_300)
    )


def test_details_are_data_sizes_and_the_deadline_that_was_written(redis, new_session) -> None:
    session = new_session("7", colour="blue", basket={"lamp": 1})
    details = online.details(session.sid)
    assert details.data == {"_auth_user_id": "7", "colour": "blue", "basket": {"lamp": 1}}
    assert details.sizes == {"_auth_user_id": len('"7"'), "colour": len('"blue"'), "basket": len('{"lamp":1}')}
    assert details.age_seconds == 14 * 24 * 3600
    redis.zincrby(keyspace().of_sid(session.sid).expire, -3_600_000, session.sid)
    assert online.details(session.sid) == details
    left = online.get(session.sid).expires_at
    # In whole seconds.
    assert timedelta(0) <= details.django_deadline - timedelta(hours=1) - left < timedelta(seconds=1)


def test_a_deadline_that_is_a_date_has_no_age(new_session) -> None:
    session = new_session("7")
    date = online.get(session.sid).expires_at.replace(microsecond=0)
    session.set_expiry(date)
    session.save()
    details = online.details(session.sid)
    assert (details.django_deadline, details.age_seconds) == (date, 0)


def test_looking_leaves_no_trace(redis, new_session, settings) -> None:
    settings.REDSESS = {**getattr(settings, "REDSESS", {}), "TOUCH_INTERVAL": 0, "IDLE_TIMEOUT": 60, "SLIDING": True}
    sid = new_session("7", colour="blue").sid
    make_older(redis, sid, 30)
    have_agreed()
    before = dump(redis)
    online.details(sid)
    online.get(sid)
    online.find([sid, "x" * 20], follow=True)
    online.sessions(guests=True)
    online.count()
    assert dump(redis) == before


def test_ended_sessions_are_returned_with_user_reason_and_time_and_the_others_stay(redis, new_session) -> None:
    member, other, guest = new_session("7").sid, new_session("7").sid, new_session(colour="blue").sid
    seconds = int(redis.time()[0])
    # What is gone or no sid is no error.
    ended = online.end("no sid", member, "", member, "x" * 20, guest)
    assert {each[:3] for each in ended} == {(member, "7", Reason.KICKED), (guest, "", Reason.KICKED)}
    assert all(isinstance(each, EndedSession) and 0 <= each.ended_at.timestamp() - seconds < 10 for each in ended)
    assert sids_of(online.sessions(guests=True)) == [other]
    assert online.end(member) == online.end() == []


def test_more_sessions_than_a_batch_are_found_and_ended(redis, new_session) -> None:
    fill(redis, 1100, viewed=0, users=3)
    sids = sids_of(online.sessions(limit=2000))
    assert sids_of(online.find(sids[::-1])) == sids[::-1]
    assert {ended.sid for ended in online.end(*sids)} == set(sids)
    assert stored(redis) == 0


@pytest.mark.parametrize("reason", ["", "x" * 200, "ä" * 200, "  " + "y" * 200 + "\n"])
def test_an_ended_user_reads_the_reason_of_up_to_200_characters(new_session, reason: str) -> None:
    session = new_session("7")
    online.end(session.sid, message=reason)
    assert notice_of(session)[:2] == (Reason.KICKED, reason.strip())


def test_what_could_forge_a_line_is_taken_out_of_the_reason(new_session) -> None:
    session = new_session("7")
    online.end(session.sid, message=" see\r\nX-Forged: 1\0\x1b[31m you\u2028soon ")
    assert notice_of(session).message == "see X-Forged: 1 [31m you soon"


@pytest.mark.parametrize(
    "end",
    [
        lambda sid, reason: online.end(sid, message=reason),
        lambda sid, reason: online.end_user(User(pk=7), message=reason),
        lambda sid, reason: online.end_all(message=reason),
        lambda sid, reason: list(online.end_in_batches(message=reason)),
    ],
    ids=["end", "end_user", "end_all", "ending"],
)
def test_a_reason_that_is_too_long_is_a_clear_error_and_ends_nothing(new_session, end: Any) -> None:
    [sid] = sign_in(new_session, "7")
    with pytest.raises(ValueError, match="at most 200 characters, not 201"):
        end(sid, "x" * 201)
    assert sids_of(online.sessions()) == [sid]


@pytest.mark.parametrize("named", [[0], [1], [2], [3], [0, 3, 1, 0]], ids=repr)
def test_a_session_is_ended_once_over_several_keys_and_in_other_partitions(redis, new_session, named) -> None:
    one, other = users_apart()
    session = new_session(colour="blue")
    sids = [session.sid, rotate(session, one), rotate(session, other), rotate(session)]
    ended = online.end(*(sids[number] for number in named), message="Bye.")
    assert [(each.sid, each.user_id) for each in ended] == [(sids[-1], other)]
    assert notice_of(session).message == "Bye."
    assert online.find(sids, follow=True) == []
    assert stored(redis) == 0


def test_users_who_are_to_be_kept_are_kept_under_another_key_too(new_session) -> None:
    sids = sign_in(new_session, "7", "8", "7", "9")
    guest = new_session(colour="blue").sid
    ended = online.end(*sids, guest, keep_user_ids=["7", "9", "nobody"])
    assert {each.sid for each in ended} == {sids[1], guest}
    assert sids_of(online.sessions()) == [sids[3], sids[2], sids[0]]
    one, other = users_apart()
    session = new_session(colour="blue")
    old = session.sid
    new = [rotate(session, one), rotate(session)][1]
    assert online.end(old, keep_user_ids=[one]) == []
    assert [ended.sid for ended in online.end(old, keep_user_ids=[other])] == [new]


def test_large_sessions_are_ended_in_several_calls(redis, new_session, commands) -> None:
    sids = [new_session("7", data=text_of(400_000)).sid for _ in range(7)]
    commands()
    assert {ended.sid for ended in online.end(*sids, keep_user_ids=["8"])} == set(sids)
    assert commands()["evalsha"] > 1
    assert stored(redis) == 0


def test_all_sessions_of_a_user_are_ended_but_the_one_to_keep(new_session) -> None:
    sessions = [new_session(user) for user in "7877"]
    user, sids = User(pk=7), sids_of(sessions)
    assert online.end_user(user, keep=sids[2], message="Bye.") == 2
    # In any order: both may have begun in one moment.
    assert set(sids_of(online.sessions())) == {sids[2], sids[1]}
    assert notice_of(sessions[0]).message == "Bye."
    assert online.end_user(user) == 1
    assert online.end_user(user) == 0
    assert sids_of(online.sessions()) == [sids[1]]


def test_every_signed_in_session_is_ended_but_the_one_to_keep_and_guests(new_session) -> None:
    sessions = [new_session(user) for user in "7879"]
    guest, kept = new_session(colour="blue").sid, sessions[1].sid
    assert online.end_all(keep=kept, message="We move house.") == 3
    assert sids_of(online.sessions()) == [kept]
    assert online.end_all() == 1
    assert online.end_all() == 0
    assert online.get(guest)
    assert [notice_of(session).message for session in sessions] == ["We move house.", "", *["We move house."] * 2]


@pytest.mark.parametrize("keep", [0, 300, 599])
def test_more_than_a_batch_is_ended_whichever_is_kept(redis, keep: int) -> None:
    fill(redis, 600, viewed=0, users=3)
    kept = sids_of(online.sessions(limit=600))[keep]
    user = User(pk=online.get(kept).user_id)
    assert online.end_user(user, keep=kept) == 199
    assert online.end_all(keep=kept) == 400
    assert sids_of(online.sessions()) == [kept]


def test_ending_all_takes_250_a_step_and_may_be_stopped(redis) -> None:
    fill(redis, 700, viewed=0)
    work = online.end_in_batches(message="Bye.")
    first = next(work)
    assert 0 < len(first) <= 250
    work.close()
    assert online.count() == 700 - len(first)
    steps = list(online.end_in_batches())
    assert all(len(step) <= 250 for step in steps)
    assert sum(map(len, steps)) == 700 - len(first)
    assert stored(redis) == 0


def test_what_can_be_asked_can_be_awaited_with_the_same_answer(new_session) -> None:
    sids = sign_in(new_session, "7", "8", "7")
    cleaning.take_sample()
    user = User(pk=7)
    assert (
        asyncio.run(online.asessions(order="created_at", limit=2)) == online.sessions(order="created_at", limit=2) != []
    )
    assert asyncio.run(online.aof_user(user)) == online.of_user(user) != []
    assert asyncio.run(online.afind(sids)) == online.find(sids) != []
    assert asyncio.run(online.aget(sids[0])) == online.get(sids[0]) is not None
    assert asyncio.run(online.acount(user_ids=["7"])) == online.count(user_ids=["7"]) == 2
    assert asyncio.run(online.adetails(sids[0])) == online.details(sids[0]) is not None
    assert asyncio.run(online.asamples(hours=1)) == online.samples(hours=1) != []


def test_ending_can_be_awaited(new_session) -> None:
    sids = sign_in(new_session, "7", "8", "8", "9", "9")
    session = new_session("7")
    [ended] = asyncio.run(online.aend(session.sid, sids[1], message="Bye.", keep_user_ids=["8"]))
    assert (ended.user_id, ended.reason) == ("7", Reason.KICKED)
    assert notice_of(session).message == "Bye."
    assert asyncio.run(online.aend_user(User(pk=8), keep=sids[1])) == 1
    assert asyncio.run(online.aend_all(keep=sids[4])) == 3
    assert sids_of(online.sessions()) == [sids[4]]


@pytest.mark.parametrize("sid", ["", "x" * 20, "not a sid", "a:b", "ä" * 20, "x" * 1_000_000])
def test_an_unknown_sid_is_none(sid: str) -> None:
    assert online.get(sid) is online.details(sid) is None
    assert online.find([sid], follow=True) == online.end(sid) == []


def test_no_users_have_no_sessions(new_session) -> None:
    sign_in(new_session, "a")
    assert (online.sessions(user_ids=[]), online.count(user_ids=[])) == ([], 0)
    assert list(online.end_in_batches(user_ids=[])) in ([], [[]])
    assert online.count() == 1
