"""``cleanviewed``: which items keep their views, how many, and what runs meanwhile."""

import json
import re
import threading
from collections.abc import Mapping
from typing import Any

import pytest
import redis as redis_py
from django.core.management import call_command

from django_redsess import cleaning, viewed
from django_redsess.transport.keys import keyspace
from tests.helpers.behind import dump, have_views, stored
from tests.helpers.running import wait_until


def views_of(client: redis_py.Redis) -> dict[str, int]:
    """Read the views of all items."""
    return {
        item.decode(): int(-score)
        for partition in keyspace().partitions
        for item, score in client.zrange(partition.viewed, 0, -1, withscores=True)
    }


def top(views: Mapping[str, int], limit: int) -> dict[str, int]:
    return dict(sorted(views.items(), key=lambda entry: -entry[1])[:limit])


def clean(**options: Any) -> None:
    call_command("cleanviewed", verbosity=0, interactive=False, **options)


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("limit", [1, 2, 37, 299, 300])
def test_the_most_viewed_are_kept_with_their_views(redis, limit: int) -> None:
    # Of every size: the borderline is to be found among few views and among many.
    views = {f"item {number}": number**3 + 1 for number in range(300)}
    have_views(redis, views)
    clean(limit=limit)
    assert views_of(redis) == top(views, limit)


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize(("limit", "level"), [(15, 5), (100, 90), (10, 0), (4, -6)])
def test_of_those_level_at_the_edge_as_many_stay_as_there_is_room_for(redis, limit: int, level: int) -> None:
    views = {**{f"often {number}": 7 for number in range(10)}, **{f"seldom {number}": 3 for number in range(200)}}
    have_views(redis, views)
    clean(limit=limit)
    left = views_of(redis)
    assert len(left) == limit
    assert sum(count == 7 for count in left.values()) == min(limit, 10)
    assert sum(count == 3 for count in left.values()) == max(0, level)
    assert left.items() <= views.items()


@pytest.mark.usefixtures("partitions")
def test_a_limit_applies_to_the_store_and_not_to_each_partition(redis) -> None:
    # All the popular ones in one partition, where there are several.
    space = keyspace()
    names = [f"item {number}" for number in range(2000)]
    home = [name for name in names if space.of_item(name) == space.partitions[-1]][:100]
    others = [name for name in names if name not in home][:100]
    have_views(redis, {**dict.fromkeys(home, 50), **dict.fromkeys(others, 49)})
    clean(limit=100)
    assert set(views_of(redis)) == set(home)


@pytest.mark.usefixtures("partitions")
def test_an_item_viewed_a_great_many_times_is_found_in_few_steps(redis, commands, partitions) -> None:
    have_views(redis, {"lamp": 2**50, "shoe": 2**50 - 1, "hat": 2**50 - 2})
    clean(limit=100)
    commands()
    clean(limit=2)
    assert set(views_of(redis)) == {"lamp", "shoe"}
    assert commands()["evalsha"] < 120 * partitions


@pytest.mark.usefixtures("partitions")
def test_nothing_changes_when_there_are_no_more_than_the_limit(redis, capsys) -> None:
    have_views(redis, {f"item {number}": number + 1 for number in range(20)})
    before = dump(redis)
    call_command("cleanviewed", limit=20, json=True)
    assert {name: before.get(name) for name in before} == {name: redis.dump(name) for name in before}
    summary = json.loads(capsys.readouterr().out)
    assert (summary["items"], summary["per_second"], summary["stopped"]) == (0, 0, False)


@pytest.mark.usefixtures("partitions")
def test_no_batch_is_larger_than_asked(redis, capsys) -> None:
    have_views(redis, {f"item {number}": number + 1 for number in range(200)})
    call_command("cleanviewed", limit=50, batch_size=40, verbosity=2, interactive=False)
    batches = [int(size) for size in re.findall(r"^items: (\d+)$", capsys.readouterr().out, re.MULTILINE)]
    assert sum(batches) == 150
    assert max(batches) <= 40


def test_each_batch_is_one_call(redis, commands) -> None:
    have_views(redis, {f"item {number}": number + 1 for number in range(200)})
    clean(limit=200)
    commands()
    clean(limit=50, batch_size=50)
    assert commands()["evalsha"] == 3


@pytest.mark.usefixtures("partitions")
def test_an_item_viewed_often_after_the_scan_survives(redis) -> None:
    have_views(redis, {f"item {number}": number + 1 for number in range(200)})
    batches = cleaning.trimmed(limit=20, batch_size=10)
    next(batches)
    late = min(views_of(redis).items(), key=lambda entry: entry[1])[0]
    have_views(redis, {late: 1000})
    list(batches)
    left = views_of(redis)
    assert left[late] > 1000
    assert len(left) == 20


@pytest.mark.usefixtures("partitions")
def test_views_that_are_counted_meanwhile_all_count(redis, new_session) -> None:
    have_views(redis, {f"item {number}": number % 900 + 1 for number in range(3000)})
    have_views(redis, {f"hot {number}": 5000 for number in range(5)})
    session = new_session("7")
    stop, counted = threading.Event(), 0

    def count() -> None:
        nonlocal counted
        while not stop.is_set() or not counted:
            for number in range(5):
                viewed.record(session, f"hot {number}")
            counted += 1

    thread = threading.Thread(target=count)
    thread.start()
    try:
        clean(limit=100, batch_size=10)
    finally:
        stop.set()
        thread.join()
    left = views_of(redis)
    assert len(left) == 100
    assert [left[f"hot {number}"] for number in range(5)] == [5000 + counted] * 5


@pytest.mark.usefixtures("partitions")
def test_two_at_once_take_each_item_once(redis) -> None:
    have_views(redis, {f"item {number}": number + 1 for number in range(1000)})
    counts: list[int] = []

    def trim() -> None:
        counts.append(sum(cleaning.trimmed(limit=100, batch_size=5)))

    threads = [threading.Thread(target=trim) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == 900
    assert views_of(redis) == {f"item {number}": number + 1 for number in range(900, 1000)}


def test_what_sessions_have_viewed_stays_in_their_own_lists(redis, new_session) -> None:
    session = new_session("7")
    viewed.record(session, "lamp")
    have_views(redis, {"shoe": 5})
    clean(limit=1)
    assert [entry.item for entry in viewed.recent(session)] == ["lamp"]
    assert viewed.count("lamp") == 0
    assert stored(redis) == 1


def test_forever_runs_until_it_is_told_to_end(redis, start) -> None:
    have_views(redis, {f"item {number}": number + 1 for number in range(30)})
    command = start("cleanviewed", "--forever", "--limit", "10", "--noinput")
    wait_until(lambda: len(views_of(redis)) == 10)
    assert command.stop() == (0, "")


def test_a_signal_ends_a_pass_after_the_batch(redis, start) -> None:
    have_views(redis, {f"item {number}": number + 1 for number in range(40_000)})
    command = start("cleanviewed", "--limit", "1", "--batch-size", "1", "--json", "--no-input")
    wait_until(lambda: len(views_of(redis)) < 40_000)
    status, said = command.stop()
    assert status == 1
    assert said.startswith("CommandError: Stopped. ")
    summary = json.loads(command.stdout)
    assert summary["stopped"] is True
    assert len(views_of(redis)) > 1
    assert summary["items"] + len(views_of(redis)) == 40_000


@pytest.mark.usefixtures("partitions")
def test_a_dry_run_counts_and_changes_nothing(redis, capsys) -> None:
    have_views(redis, {f"item {number}": number + 1 for number in range(20)})
    before = dump(redis)
    call_command("cleanviewed", limit=3, dry_run=True)
    capsys.readouterr()
    call_command("cleanviewed", limit=3, dry_run=True, json=True)
    assert json.loads(capsys.readouterr().out)["items"] == 17
    assert dump(redis) == before


@pytest.mark.parametrize(("said", "left"), [("y\n", 3), ("n\n", 20), ("\n", 20)])
@pytest.mark.parametrize("as_json", [False, True])
def test_more_than_a_tenth_of_all_items_is_asked_for(redis, answer, capsys, said: str, left: int, as_json) -> None:
    have_views(redis, {f"item {number}": number + 1 for number in range(20)})
    answer(said)
    call_command("cleanviewed", limit=3, json=as_json)
    told = capsys.readouterr()
    question = "Forget the views of 17 of 20 items? [y/N] "
    assert question in (told.err if as_json else told.out)
    assert len(views_of(redis)) == left
    if as_json:
        assert json.loads(told.out)["items"] == 20 - left
    else:
        assert f"Removed {20 - left} items" in told.out


def test_without_a_terminal_more_than_a_tenth_must_be_confirmed(redis, start) -> None:
    have_views(redis, {f"item {number}": number + 1 for number in range(20)})
    status, told = start("cleanviewed", "--limit", "3").ended()
    assert status == 1
    assert "--noinput" in told
    assert len(views_of(redis)) == 20


@pytest.mark.parametrize("options", [{}, {"limit": 18}, {"limit": 19}], ids=str)
def test_a_tenth_is_not_asked_for(redis, settings, options) -> None:
    settings.REDSESS = {"VIEWED_LIMIT": 18}
    have_views(redis, {f"item {number}": number + 1 for number in range(20)})
    call_command("cleanviewed", verbosity=0, **options)
    assert len(views_of(redis)) == options.get("limit", 18)


def test_more_than_a_tenth_above_the_setting_is_asked_for_too(redis, settings, answer) -> None:
    settings.REDSESS = {"VIEWED_LIMIT": 15}
    have_views(redis, {f"item {number}": number + 1 for number in range(20)})
    answer("n\n")
    call_command("cleanviewed")
    assert len(views_of(redis)) == 20
