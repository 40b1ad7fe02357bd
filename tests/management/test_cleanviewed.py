"""``cleanviewed``: which items keep their views, how many, and what runs meanwhile."""

import json
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis as redis_py
from django.core.management import CommandError, call_command

from django_redsess import cleaning, viewed
from tests.helpers.running import wait_until
from tests.helpers.store import dump, have_agreed, have_views, keyspace, stored


def views_of(client: redis_py.Redis) -> dict[str, int]:
    return {
        item.decode(): int(-score)
        for partition in keyspace().partitions
        for item, score in client.zrange(partition.viewed, 0, -1, withscores=True)
    }


def clean(**options: Any) -> None:
    call_command("cleanviewed", verbosity=0, interactive=False, **options)


@pytest.mark.usefixtures("partitions")
def test_the_most_viewed_are_kept_with_their_views(redis) -> None:
    # Of every size: the borderline is to be found among few views and among many.
    views = {f"item {number}": number**3 + 1 for number in range(300)}
    have_views(redis, views)
    for limit in (300, 299, 37, 2, 1):
        clean(max_items=limit)
        assert views_of(redis) == dict(list(views.items())[-limit:])


@pytest.mark.usefixtures("partitions")
def test_of_those_level_at_the_edge_as_many_stay_as_there_is_room_for(redis) -> None:
    views = {**{f"often {number}": 7 for number in range(10)}, **{f"seldom {number}": 3 for number in range(200)}}
    have_views(redis, views)
    for limit in (100, 15, 10, 4):
        clean(max_items=limit)
        left = views_of(redis)
        assert Counter(left.values()) == Counter({7: min(limit, 10), 3: max(0, limit - 10)})
        assert left.items() <= views.items()


@pytest.mark.usefixtures("partitions")
def test_a_limit_applies_to_the_store_and_not_to_each_partition(redis) -> None:
    # All the popular ones in one partition, where there are several.
    space = keyspace()
    names = [f"item {number}" for number in range(2000)]
    home = [name for name in names if space.of_item(name) == space.partitions[-1]][:100]
    others = [name for name in names if name not in home][:100]
    have_views(redis, {**dict.fromkeys(home, 50), **dict.fromkeys(others, 49)})
    clean(max_items=100)
    assert set(views_of(redis)) == set(home)


@pytest.mark.usefixtures("partitions")
def test_an_item_viewed_a_great_many_times_is_found_in_few_steps(redis, commands, partitions) -> None:
    have_views(redis, {"lamp": 2**50, "shoe": 2**50 - 1, "hat": 2**50 - 2})
    clean(max_items=100)
    commands()
    clean(max_items=2)
    assert set(views_of(redis)) == {"lamp", "shoe"}
    assert commands()["evalsha"] < 120 * partitions


@pytest.mark.usefixtures("partitions")
def test_nothing_changes_when_there_are_no_more_than_the_limit(redis, capsys) -> None:
    have_views(redis, {f"item {number}": number + 1 for number in range(20)})
    before = dump(redis)
    call_command("cleanviewed", max_items=20, json=True)
    assert dump(redis).items() >= before.items()
    summary = json.loads(capsys.readouterr().out)
    assert (summary["items"], summary["per_second"], summary["stopped"]) == (0, 0, False)


def test_no_batch_is_larger_than_asked_and_each_is_one_call(redis, partitions, commands, capsys) -> None:
    have_views(redis, {f"item {number}": number + 1 for number in range(200)})
    clean(max_items=200)
    commands()
    call_command("cleanviewed", max_items=50, batch_size=40, verbosity=2, interactive=False)
    batches = [int(size) for size in re.findall(r"^items: (\d+)$", capsys.readouterr().out, re.MULTILINE)]
    assert (sum(batches), max(batches) <= 40) == (150, True)
    assert partitions > 1 or commands()["evalsha"] == 4


@pytest.mark.usefixtures("partitions")
def test_an_item_viewed_often_after_the_scan_survives(redis) -> None:
    have_views(redis, {f"item {number}": number + 1 for number in range(200)})
    batches = cleaning.trim_viewed_items(limit=20, batch_size=10)
    next(batches)
    late = min(views_of(redis).items(), key=lambda entry: entry[1])[0]
    have_views(redis, {late: 1000})
    list(batches)
    left = views_of(redis)
    assert left[late] > 1000
    assert len(left) == 20


@pytest.mark.usefixtures("partitions")
def test_views_that_are_counted_meanwhile_all_count(redis, new_session) -> None:
    have_views(redis, {f"item {number}": number % 900 + 1 for number in range(1000)})
    have_views(redis, {f"hot {number}": 5000 for number in range(5)})
    session = new_session("7")
    counted = 0
    with ThreadPoolExecutor(1) as threads:
        cleaned = threads.submit(clean, max_items=100, batch_size=10)
        while not cleaned.done() or not counted:
            for number in range(5):
                viewed.record(session, f"hot {number}")
            counted += 1
    cleaned.result()
    left = views_of(redis)
    assert len(left) == 100
    assert [left[f"hot {number}"] for number in range(5)] == [5000 + counted] * 5


@pytest.mark.usefixtures("partitions")
def test_two_at_once_take_each_item_once(redis) -> None:
    have_views(redis, {f"item {number}": number + 1 for number in range(1000)})
    with ThreadPoolExecutor(2) as threads:
        counts = threads.map(lambda _: sum(cleaning.trim_viewed_items(limit=100, batch_size=5)), range(2))
    assert sum(counts) == 900
    assert views_of(redis) == {f"item {number}": number + 1 for number in range(900, 1000)}


def test_what_sessions_have_viewed_stays_in_their_own_lists(redis, new_session) -> None:
    session = new_session("7")
    viewed.record(session, "lamp")
    have_views(redis, {"shoe": 5})
    clean(max_items=1)
    assert [entry.item for entry in viewed.recent(session)] == ["lamp"]
    assert viewed.count("lamp") == 0
    assert stored(redis) == 1


@pytest.mark.slow
def test_forever_runs_until_it_is_told_to_end(redis, start) -> None:
    have_views(redis, {f"item {number}": number + 1 for number in range(30)})
    command = start("cleanviewed", "--forever", "--max-items", "10", "--noinput")
    wait_until(lambda: len(views_of(redis)) == 10)
    assert command.stop() == (0, "")


@pytest.mark.slow
def test_a_signal_ends_a_pass_after_the_batch(redis, start) -> None:
    have_views(redis, {f"item {number}": number + 1 for number in range(40_000)})
    command = start("cleanviewed", "--max-items", "1", "--batch-size", "1", "--json", "--no-input")
    wait_until(lambda: len(views_of(redis)) < 40_000)
    status, said = command.stop()
    assert (status, said.startswith("CommandError: Stopped. ")) == (1, True)
    summary = json.loads(command.stdout)
    assert summary["stopped"] is True
    assert summary["items"] == 40_000 - len(views_of(redis)) < 39_999


@pytest.mark.usefixtures("partitions")
def test_a_dry_run_counts_and_changes_nothing(redis, capsys) -> None:
    have_views(redis, {f"item {number}": number + 1 for number in range(20)})
    have_agreed()
    before = dump(redis)
    call_command("cleanviewed", max_items=3, dry_run=True, json=True)
    assert json.loads(capsys.readouterr().out)["items"] == 17
    assert dump(redis) == before


@pytest.mark.parametrize(("said", "left", "as_json"), [("y\n", 3, False), ("n\n", 20, True), ("\n", 20, False)])
def test_more_than_a_tenth_of_all_items_is_asked_for(redis, answer, capsys, said: str, left: int, as_json) -> None:
    have_views(redis, {f"item {number}": number + 1 for number in range(20)})
    answer(said)
    call_command("cleanviewed", max_items=3, json=as_json)
    told = capsys.readouterr()
    question = "Forget the views of 17 of 20 items? [y/N] "
    assert question in (told.err if as_json else told.out)
    assert len(views_of(redis)) == left
    if as_json:
        assert json.loads(told.out)["items"] == 20 - left
    else:
        assert f"Removed {20 - left} items" in told.out


def test_without_a_terminal_more_than_a_tenth_must_be_confirmed(redis) -> None:
    have_views(redis, {f"item {number}": number + 1 for number in range(20)})
    with pytest.raises(CommandError, match="--noinput"):
        call_command("cleanviewed", max_items=3)
    assert len(views_of(redis)) == 20


@pytest.mark.parametrize("options", [{}, {"max_items": 18}, {"max_items": 19}], ids=str)
def test_a_tenth_is_not_asked_for_but_more_above_the_setting_is(redis, settings, answer, options) -> None:
    settings.REDSESS = {"VIEWED_LIMIT": 18}
    have_views(redis, {f"item {number}": number + 1 for number in range(20)})
    call_command("cleanviewed", verbosity=0, **options)
    assert len(views_of(redis)) == options.get("max_items", 18)
    settings.REDSESS = {"VIEWED_LIMIT": 15}
    answer("n\n")
    call_command("cleanviewed")
    assert len(views_of(redis)) == options.get("max_items", 18)
