import json

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import NotSupportedError
from django.db.models import Q

from django_redsess.models import OnlineSession
from tests.test_online import sign_in

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("partitions")]

online = OnlineSession.online


@pytest.fixture
def sids(new_session) -> list[str]:
    """Sessions of the users 1, 2, 1, oldest sign-in first."""
    return sign_in(new_session, "1", "2", "1")


def listed(queryset) -> list[str]:
    return [session.sid for session in queryset]


def test_newest_sign_in_comes_first(sids) -> None:
    assert listed(online.all()) == sids[::-1]
    assert listed(online.order_by("login_at", "-pk")) == sids
    assert listed(online.order_by("-pk")) == sids[::-1]
    assert listed(online.all().reverse()) == sids


def test_slices_and_counts(sids) -> None:
    assert online.count() == len(online.all()) == 3
    assert listed(online.all()[1:]) == sids[1::-1]
    assert listed(online.all()[1:2]) == [sids[1]]
    assert online.all()[0].sid == sids[2]
    assert online.all()[2:10].count() == 1
    assert online.first().sid == sids[2]
    assert online.exists()


def test_filters_by_session_and_by_user(sids) -> None:
    assert listed(online.filter(pk__in=sids[:2])) == [sids[1], sids[0]]
    assert listed(online.filter(Q(Q(("user_id", "1"))))) == [sids[2], sids[0]]
    assert listed(online.filter(user_id=1, sid=sids[0])) == [sids[0]]
    assert listed(online.filter(user_id="1").filter(user_id="2")) == []
    assert listed(online.filter()) == sids[::-1]
    assert online.filter(user_id="1").count() == 2


def test_gets_one_or_says_why_not(sids) -> None:
    assert online.get(pk=sids[0]).user_id == "1"
    with pytest.raises(OnlineSession.DoesNotExist):
        online.get(pk="x" * 20)
    with pytest.raises(OnlineSession.MultipleObjectsReturned):
        online.get(user_id="1")


def test_users_come_in_one_query_and_a_deleted_one_is_none(new_session, django_assert_num_queries) -> None:
    users = [User.objects.create(username=name) for name in ("alice", "bob", "carol")]
    for user in users:
        new_session(str(user.pk))
    new_session("not a primary key")
    users[1].delete()
    with django_assert_num_queries(1):
        names = [str(session) for session in online.order_by("login_at")]
    assert set(names) == {"alice", "carol", f"deleted user {int(users[0].pk) + 1}", "deleted user not a primary key"}


def test_nothing_is_none(sids) -> None:
    assert listed(online.none()) == []
    assert online.none().count() == 0


def test_more_than_one_read_is_listed_whole(new_session) -> None:
    for _ in range(1005):
        new_session("1")
    assert len(set(listed(online.all()))) == 1005


@pytest.mark.parametrize(
    "ask",
    [
        lambda rows: rows.filter(address="192.0.2.1"),
        lambda rows: rows.filter(Q(sid="a") | Q(sid="b")),
        lambda rows: rows.filter(~Q(sid="a")),
        lambda rows: rows.order_by("address"),
        lambda rows: rows.exclude(sid="a"),
        lambda rows: rows.values("sid"),
        lambda rows: rows.aggregate(),
        lambda rows: rows.update(address=""),
        lambda rows: rows.delete(),
        lambda rows: rows.create(sid="a"),
    ],
)
def test_what_is_not_possible_says_so_and_asks_no_table(sids, ask) -> None:
    with pytest.raises(NotSupportedError, match="Online sessions"):
        ask(online.all())


def test_the_database_sees_no_rows(sids) -> None:
    assert list(OnlineSession._default_manager.all()) == []
    assert list(OnlineSession._base_manager.all()) == []


@pytest.mark.parametrize("everything", [False, True])
def test_dumpdata_does_not_see_the_model(sids, everything, capsys) -> None:
    call_command("dumpdata", all=everything)
    assert {"django_redsess.onlinesession"} & {row["model"] for row in json.loads(capsys.readouterr().out)} == set()
