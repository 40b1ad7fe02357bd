"""Sessions as a QuerySet: what the admin asks of it, and that all else is refused."""

import asyncio
import operator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import NotSupportedError
from django.db.models import Q

from benchmarks.fill import fill
from django_redsess import online as public
from django_redsess import querysets
from django_redsess.models import OnlineSession
from tests.helpers.online import sign_in
from tests.helpers.store import keyspace, make_due, make_seen

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("partitions"), pytest.mark.on_cluster]

online = OnlineSession.online


@pytest.fixture
def sids(new_session) -> list[str]:
    """Sessions of the users 1, 2, 1, oldest sign-in first."""
    return sign_in(new_session, "1", "2", "1")


def listed(queryset) -> list[str]:
    return [session.sid for session in queryset]


def minutes_ago(redis, minutes: int) -> int:
    return int(redis.time()[0]) * 1000 - minutes * 60_000


def test_newest_sign_in_comes_first(sids) -> None:
    assert listed(online.all()) == sids[::-1]
    assert listed(online.order_by("created_at", "-pk")) == sids
    assert listed(online.order_by("-pk")) == sids[::-1]
    assert listed(online.all().reverse()) == sids


def test_sessions_can_be_ordered_by_when_they_were_seen(redis, sids) -> None:
    make_seen(redis, sids[2], minutes_ago(redis, 5))
    assert listed(online.order_by("last_seen_at")) == [sids[2], sids[0], sids[1]]
    assert listed(online.order_by("-last_seen_at", "created_at")) == [sids[1], sids[0], sids[2]]
    assert listed(online.order_by("-last_seen_at").filter(user_id="1")) == [sids[0], sids[2]]
    assert listed(online.order_by("last_seen_at").filter(sid__in=sids)) == [sids[2], sids[0], sids[1]]


@pytest.mark.parametrize("narrow", ["all", "of users", "guests too", "active", "by sid"])
def test_reversed_is_the_other_way_round(redis, sids, new_session, narrow: str) -> None:
    guest = new_session(colour="blue").sid
    make_seen(redis, sids[1], minutes_ago(redis, 5))
    narrowed = {
        "all": online.all(),
        "of users": online.all().of_users(["1", "2"]),
        "guests too": online.all().with_guests(),
        "active": online.all().active(600),
        "by sid": online.with_guests().filter(sid__in=[*sids, guest]),
    }[narrow]
    for order in ("created_at", "-created_at", "last_seen_at", "-last_seen_at"):
        rows = narrowed.order_by(order)
        assert listed(rows.reverse()) == listed(rows)[::-1]
        assert listed(rows.reverse().reverse()) == listed(rows)
        assert rows.last().sid == listed(rows)[-1]
        assert rows.ordered


def test_slices_and_counts(sids) -> None:
    assert online.count() == len(online.all()) == 3
    assert listed(online.all()[1:]) == sids[1::-1]
    assert listed(online.all()[1:2]) == [sids[1]]
    assert online.all()[0].sid == sids[2]
    assert online.all()[2:10].count() == 1
    assert online.all()[5:10].count() == 0
    assert online.all()[1:][1:].count() == 1
    assert listed(online.all()[1:][1:]) == [sids[0]]
    assert listed(online.all()[::2]) == [sids[2], sids[0]]
    assert online.first().sid == sids[2]
    assert online.last().sid == sids[0]
    assert online.exists()
    with pytest.raises(IndexError):
        online.all()[3]


def test_filters_by_session_and_by_user(sids) -> None:
    assert listed(online.filter(pk__in=sids[:2])) == [sids[1], sids[0]]
    assert listed(online.filter(Q(Q(("user_id", "1"))))) == [sids[2], sids[0]]
    assert listed(online.filter(user_id=1, sid=sids[0])) == [sids[0]]
    assert listed(online.filter(user_id="1").filter(user_id="2")) == []
    assert listed(online.filter(sid=sids[0]).filter(sid=sids[1])) == []
    assert listed(online.filter(sid__in=sids[:2], pk=sids[1])) == [sids[1]]
    assert listed(online.filter()) == sids[::-1]
    assert online.filter(user_id="1").count() == 2
    assert online.filter(sid__in=[*sids, "x" * 20, "no sid"]).count() == 3
    assert {sid: found.sid for sid, found in online.in_bulk(sids[:2]).items()} == {sid: sid for sid in sids[:2]}
    row = online.get(sid=sids[0])
    assert online.contains(row)
    assert not online.filter(user_id="2").contains(row)


def test_of_several_chosen_users_those_count_that_are_in_all_choices(new_session) -> None:
    sids = sign_in(new_session, "1", "2", "3")
    assert listed(online.of_users(["1", "2"])) == [sids[1], sids[0]]
    assert listed(online.of_users(["1", "2"]).of_users(["2", "3"])) == [sids[1]]
    assert listed(online.of_users(["1", "2"]).filter(user_id=2)) == [sids[1]]
    assert listed(online.of_users(["1"]).of_users(["2"])) == []
    assert online.of_users([]).count() == 0
    assert listed(online.of_users(["1", "2"]).filter(sid__in=sids)) == [sids[1], sids[0]]


def test_more_than_a_thousand_users_are_a_clear_error() -> None:
    rows = online.of_users([str(number) for number in range(1001)])
    for ask in (rows.count, lambda: list(rows)):
        with pytest.raises(ValueError, match="At most 1000 users"):
            ask()


def test_guests_are_there_where_they_are_asked_for(redis, sids, new_session) -> None:
    guest = new_session(colour="blue").sid
    make_seen(redis, sids[0], minutes_ago(redis, 5))
    assert set(listed(online.all())) == set(sids)
    rows = online.with_guests()
    assert listed(rows)[-1] == sids[0]
    assert set(listed(rows)) == {*sids, guest}
    assert rows.count() == 4
    [row] = [row for row in rows if row.sid == guest]
    assert (row.user, row.user_id, row.created_at, str(row)) == (None, "", None, "guest")
    assert not online.filter(sid=guest).exists()
    assert listed(rows.filter(sid=guest)) == [guest]
    assert listed(rows.of_users(["1"]).filter(sid__in=[guest, sids[0]])) == [sids[0]]
    # Who lists guests only never lists others.
    guests = online.only_guests().with_guests()
    assert (listed(guests), guests.count()) == ([guest], 1)
    assert listed(guests.filter(sid__in=[*sids, guest])) == [guest]


def test_those_not_seen_lately_are_left_out(redis, sids, new_session) -> None:
    guest = new_session(colour="blue").sid
    make_seen(redis, sids[1], minutes_ago(redis, 3))
    make_seen(redis, sids[2], minutes_ago(redis, 1))
    assert listed(online.active(120)) == [sids[0], sids[2]]
    assert listed(online.active(120).order_by("created_at")) == [sids[2], sids[0]]
    assert listed(online.active(600).order_by("last_seen_at")) == [sids[1], sids[2], sids[0]]
    assert set(listed(online.active(120).with_guests())) == {sids[0], sids[2], guest}
    assert online.active(120).count() == 2
    assert online.active(120).of_users(["2"]).count() == 0
    assert listed(online.active(120).filter(sid__in=sids[:2])) == [sids[0]]
    assert not online.active(120).filter(sid=sids[1]).exists()


def test_a_session_is_marked_as_that_of_who_asks(sids) -> None:
    rows = online.marked_for(sids[1])
    assert [row.sid for row in rows.filter(user_id__exact="2") if row.is_own] == [sids[1]]
    assert [row.is_own for row in rows.order_by("created_at")] == [False, True, False]
    assert [row.is_own for row in rows[:2]] == [False, True]
    assert rows.get(sid=sids[1]).is_own
    assert not any(row.is_own for row in online.all())
    assert not any(row.is_own for row in online.marked_for(None))


def test_gets_one_or_says_why_not(sids) -> None:
    assert online.get(pk=sids[0]).user_id == "1"
    with pytest.raises(OnlineSession.DoesNotExist):
        online.get(pk="x" * 20)
    with pytest.raises(OnlineSession.DoesNotExist):
        online.get(pk="no sid")
    with pytest.raises(OnlineSession.MultipleObjectsReturned):
        online.get(user_id="1")


def test_a_row_tells_what_the_session_does(new_session) -> None:
    user = User.objects.create(username="alice")
    session = new_session(str(user.pk), colour="blue")
    row = online.get(sid=session.sid)
    assert row.session == public.get(session.sid)
    assert (row.pk, row.user, row.created_at, row.last_seen_at) == (
        session.sid,
        user,
        row.session.created_at,
        row.created_at,
    )
    assert row.expires_at - row.last_seen_at == timedelta(days=14)
    assert not row._state.adding


def test_users_come_in_one_query_and_a_deleted_one_is_none(new_session, django_assert_num_queries) -> None:
    users = [User.objects.create(username=name) for name in ("alice", "bob", "carol")]
    for user in users:
        new_session(str(user.pk))
    new_session("not a primary key")
    new_session(colour="blue")
    users[1].delete()
    deleted = f"deleted user {int(users[0].pk) + 1}"
    with django_assert_num_queries(1):
        names = [str(session) for session in online.with_guests()]
    assert sorted(names) == ["alice", "carol", deleted, "deleted user not a primary key", "guest"]
    with django_assert_num_queries(1):
        assert len(online.order_by("created_at")[:2]) == 2


def test_what_was_read_is_not_read_again_and_a_count_that_is_kept_is_asked_for_once(
    sids, commands, new_session
) -> None:
    rows = online.all()
    assert len(rows) == 3
    commands()
    assert (rows.count(), len(rows), bool(rows), rows[0].sid) == (3, 3, True, sids[2])
    assert "evalsha" not in commands()
    rows = online.all().counting_once()
    assert rows.count() == 3
    commands()
    assert (rows.order_by("created_at").count(), rows[1:].count(), rows.marked_for(sids[0]).count()) == (3, 2, 3)
    assert "evalsha" not in commands()
    # One of other sessions is another.
    assert rows.of_users(["1"]).count() == 2
    new_session("1")
    assert online.count() == 4


def test_nothing_is_none(sids) -> None:
    for rows in (online.none(), online.all().none(), online.filter(sid__in=sids).none(), online.none().with_guests()):
        assert listed(rows) == []
        assert rows.count() == 0
        assert not rows.exists()


def test_more_than_one_read_is_listed_whole(redis, monkeypatch) -> None:
    monkeypatch.setattr(querysets, "READ_AT_ONCE", 40)
    fill(redis, 105, viewed=0, users=7)
    rows = listed(online.all())
    assert len(set(rows)) == len(rows) == 105
    times = [redis.zscore(keyspace().of_sid(sid).online_user, sid) for sid in rows]
    assert times == sorted(times, reverse=True)
    assert listed(online.all()[35:45]) == rows[35:45]
    assert listed(online.all()[:60]) == rows[:60]
    assert listed(online.filter(sid__in=rows)) == rows
    assert listed(online.iterator(chunk_size=10)) == rows


def test_what_is_due_is_neither_listed_nor_counted(redis, sids) -> None:
    make_due(redis, sids[1])
    assert listed(online.filter(sid__in=sids)) == [sids[2], sids[0]]
    assert online.count() == 2
    assert listed(online.all()) == [sids[2], sids[0]]


def test_querysets_are_combined_rightly_or_not_at_all(sids) -> None:
    for combine in (operator.or_, operator.and_, operator.xor):
        rows = [set(listed(online.filter(user_id=user))) for user in "12"]
        try:
            found = listed(combine(online.filter(user_id="1"), online.filter(user_id="2")))
        except NotSupportedError:
            continue
        assert set(found) == combine(*rows)


def test_a_slice_is_neither_filtered_nor_turned_round(sids) -> None:
    part = online.all()[:2]
    for change in (lambda: part.filter(user_id="2"), part.reverse, lambda: part.order_by("created_at"), part.last):
        with pytest.raises((TypeError, NotSupportedError)):
            change()


@pytest.mark.django_db(transaction=True)
def test_rows_can_be_awaited(sids) -> None:
    async def ask() -> tuple[Any, ...]:
        rows = [row.sid async for row in online.all()]
        one_by_one = [row.sid async for row in online.all().aiterator()]
        return rows, one_by_one, await online.acount(), (await online.aget(sid=sids[0])).sid

    assert asyncio.run(ask()) == (sids[::-1], sids[::-1], 3, sids[0])


def test_the_database_sees_no_rows_and_is_not_asked(sids, django_assert_num_queries) -> None:
    with django_assert_num_queries(0):
        assert online.count() == online.all()[:5].count() == 3
        assert online.filter(user_id="1").exists()
        assert list(OnlineSession._default_manager.all()) == []
        assert list(OnlineSession._base_manager.all()) == []
        assert OnlineSession._default_manager.count() == 0
        with pytest.raises(NotSupportedError):
            list(User.objects.filter(username__in=online.filter(user_id="1")))
