"""Pages of a list that changes meanwhile."""

from __future__ import annotations

import random
from typing import Any

import pytest

from django_redsess import online
from django_redsess.contrib.api.schemas import SessionsQuery
from tests.helpers.accounts import sid_of
from tests.helpers.api import ask, get, ids, status
from tests.helpers.store import keyspace

pytestmark = pytest.mark.django_db


def walk_while(client: Any, meanwhile: Any, **query: Any) -> list[str]:
    answer = get(client, "sessions", **query)
    found = ids(answer)
    while answer["next_cursor"]:
        meanwhile()
        answer = get(client, "sessions", **query, cursor=answer["next_cursor"])
        found += ids(answer)
    return found


@pytest.mark.parametrize("order", ["-created_at", "created_at", "-last_seen_at", "last_seen_at"])
@pytest.mark.parametrize("more", [{}, {"guests": "true"}, {"user": ["1000", "1001", "1002"]}, {"user": "1000"}])
@pytest.mark.usefixtures("partitions")
def test_none_is_left_out_or_repeated_while_others_come_and_go(root, new_session, order, more) -> None:
    if "guests" in more and order.endswith("created_at"):
        assert status(root, "get", "sessions", order=order, **more) == 422
        return
    dice, stays = random.Random(5), set[str]()
    comes, goes = list[str](), [new_session(str(1000 + number % 3)).sid for number in range(12)]
    for number in range(25):
        is_guest = "guests" in more and number % 2
        user = "" if is_guest else "1000" if more.get("user") == "1000" else str(1000 + number % 3)
        stays.add(str(new_session(user, colour="red").sid))

    def meanwhile() -> None:
        for _ in range(dice.randint(0, 2)):
            comes.append(str(new_session(str(1000 + dice.randint(0, 2))).sid))
        if goes:
            online.end(goes.pop(dice.randrange(len(goes))))
        if comes and dice.random() < 0.3:
            online.end(comes.pop())

    found = walk_while(root, meanwhile, order=order, limit=4, **more)
    if order.endswith("last_seen_at"):
        # The session of these requests may be seen in a new minute meanwhile, and move.
        found = [sid for sid in found if sid != sid_of(root)]
    assert len(found) == len(set(found))
    assert stays <= set(found)


@pytest.mark.usefixtures("left_alone", "partitions")
@pytest.mark.parametrize("order", ["-created_at", "created_at"])
def test_sessions_of_one_moment_are_each_on_one_page(root, new_session, redis, order) -> None:
    sids = {str(new_session(str(1000 + number)).sid) for number in range(30)}
    for partition in keyspace().partitions:
        members = redis.zrange(partition.online_user, 0, -1)
        if members:
            redis.zadd(partition.online_user, dict.fromkeys(members, 1_700_000_000_000))
    found = walk_while(root, lambda: None, order=order, limit=3)
    assert len(found) == 31
    assert sids < set(found)


@pytest.mark.usefixtures("partitions")
def test_the_last_session_of_a_page_may_end(root, new_session) -> None:
    sids = [str(new_session("1000").sid) for _ in range(6)]
    answer = get(root, "sessions", user="1000", limit=2)
    first = ids(answer)
    online.end(*first)
    second = ids(get(root, "sessions", user="1000", limit=100, cursor=answer["next_cursor"]))
    assert set(first) | set(second) == set(sids)
    assert len(second) == 4


def test_a_cursor_is_of_one_list_only(root, new_session) -> None:
    for _ in range(3):
        new_session("1000")
    cursor = get(root, "sessions", limit=1)["next_cursor"]
    assert get(root, "sessions", limit=2, cursor=cursor)["sessions"]
    for query in ({"order": "created_at"}, {"user": "1000"}, {"guests": "true"}, {"q": "x"}, {"browser": "Firefox"}):
        assert status(root, "get", "sessions", cursor=cursor, **query) == 422
    for path in ("users/1000/sessions", "me/sessions", "sign-ins"):
        assert status(root, "get", path, cursor=cursor) == 422
    assert status(root, "get", "sessions", cursor=cursor[:-2] + "!!") == 422


def test_a_cursor_of_what_is_listed_in_another_way_by_now_is_refused(root) -> None:
    asked = SessionsQuery(browser="Firefox")
    for place, expected in (([10], 200), ([1_700_000_000_000, "x" * 20], 422)):
        assert status(root, "get", "sessions", browser="Firefox", cursor=asked.make_cursor(place)) == expected


@pytest.mark.usefixtures("partitions")
def test_a_page_costs_the_same_wherever_it_is(root, new_session, round_trips) -> None:
    for number in range(40):
        new_session(str(1000 + number))
    costs, cursor = [], {}
    for _ in range(4):
        round_trips()
        answer = ask(root, "get", "sessions", limit=10, **cursor).json()
        costs.append(round_trips())
        cursor = {"cursor": answer["next_cursor"]}
    # The session of the request, the entries, perhaps once more those of a partition, and the rows.
    assert max(costs) <= 4
