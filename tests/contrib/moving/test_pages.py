"""Moving in bulk, page by page: rows of any size, odd ones, two commands at once, outages of the other store."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command

from django_redsess import online
from django_redsess.contrib.moving import Row, SessionStore, Source, in_bulk
from django_redsess.contrib.moving.contents import log_unusable_sid

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("partitions", "moving")]


class Shelf(Source):
    """A source of a site's own, which can be reached again after an outage or two."""

    kept: dict[str, Row | None] = {}
    fails_before: set[str] = set()

    def read_row(self, key: str) -> Row | None:
        return self.kept.get(key)

    def delete_row(self, key: str) -> None:
        self.kept.pop(key, None)

    def iter_rows(self, after: str = "") -> Iterator[tuple[str, Row | None]]:
        for key, row in sorted(each for each in self.kept.items() if each[0] > after):
            if key in self.fails_before:
                self.fails_before.remove(key)
                raise ConnectionResetError("gone for a moment")
            yield key, row

    def write_row(self, key: str, data: dict[str, Any]) -> None:
        if data["basket"] == 3:
            raise UpdateError
        self.kept[key] = Row(data)


@pytest.fixture
def shelf(moving: Any, monkeypatch: pytest.MonkeyPatch) -> type[Shelf]:
    moving.REDSESS = {**moving.REDSESS, "MOVE_FROM": f"{__name__}.Shelf"}
    monkeypatch.setattr(in_bulk, "PAGE", 3)
    Shelf.kept = {f"{number:032}": Row({"basket": number}) for number in range(20)}
    Shelf.fails_before = set()
    return Shelf


@pytest.mark.slow
@pytest.mark.parametrize("size", [300_000, 2_500_000])
def test_large_rows_move_in_little_memory(old_session, step, redis, size: int) -> None:
    count = 60_000_000 // size
    for _ in range(count):
        old_session(basket="x" * size)
    with step(2):
        tracemalloc.start()
        call_command("movesessions", verbosity=0)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert online.count(guests=True) == count
    # Some copies of one page, and not all rows.
    assert peak < 40_000_000


def test_two_commands_at_once_count_their_own(shelf, step) -> None:
    with step(2):
        first, second, pages = in_bulk.move_rows(), in_bulk.move_rows(), list[in_bulk.PageResult]()
        for work in (first, second, second, first, *[second] * 5, first):
            pages.append(next(work))
        pages += [*first, *second]
        assert sum(page.done for page in pages) == 20
        assert sum(page.before for page in pages) == 20
        assert online.count(guests=True) == 20


def test_an_outage_of_the_other_store_is_waited_for(shelf, step, capsys) -> None:
    shelf.fails_before = {f"{number:032}" for number in (0, 7, 13)}
    with step(2):
        call_command("movesessions")
        assert "Moved 20 sessions. 0 had been moved before." in capsys.readouterr().out
        shelf.fails_before = {f"{number:032}" for number in (7, 13)}
        call_command("movesessions", dry_run=True, json=True)
        counts = json.loads(capsys.readouterr().out)
        assert (counts["done"], counts["before"], counts["left"]) == (0, 20, 0)
        shelf.fails_before = {f"{number:032}" for number in (5, 19)}
        call_command("movesessions", finish=True, json=True)
        counts = json.loads(capsys.readouterr().out)
        assert (counts["done"], counts["before"], counts["left"]) == (20, 0, 0)
        assert shelf.kept == {}


@pytest.mark.parametrize("in_order", [True, False])
def test_what_an_outage_interrupts_counts_as_moved_once(shelf, step, capsys, monkeypatch, in_order: bool) -> None:
    monkeypatch.setattr(Shelf, "in_order", in_order)
    read_rows, met = Shelf.read_rows, list[int]()

    def fail(source: Shelf, keys: Any) -> Any:
        met.append(len(keys))
        if len(met) in (3, 4):
            raise ConnectionResetError("gone after the copy")
        return read_rows(source, keys)

    with step(2):
        # One that was moved before, on the page that is interrupted.
        SessionStore(f"{7:032}").load()
        monkeypatch.setattr(Shelf, "read_rows", fail)
        call_command("movesessions", json=True)
        counts = json.loads(capsys.readouterr().out)
    assert len(met) > 4
    assert (counts["done"], counts["before"], counts["left"]) == (19, 1, 0)
    assert online.count(guests=True) == 20


@pytest.mark.parametrize("option", ["", "finish", "back"])
def test_where_to_go_on_after_a_long_outage_is_said(shelf, step, monkeypatch, option: str) -> None:
    monkeypatch.setattr("django_redsess.management.cleaning_command.PATIENCE_SECONDS", 0)
    options = {option: True} if option else {}
    shelf.kept = {f"{number:02}{'0' * 30}": row for number, row in enumerate(shelf.kept.values())}
    with step(2):
        if option:
            call_command("movesessions", verbosity=0)
        for in_order, said in ((True, "go on with --from-key 08"), (False, "run it again")):
            monkeypatch.setattr(Shelf, "in_order", in_order)
            shelf.fails_before = {f"{10}{'0' * 30}"}
            with pytest.raises(CommandError, match=said):
                call_command("movesessions", verbosity=0, **options)


def test_rows_that_can_not_be_moved_are_left_and_named(shelf, step, capsys, caplog) -> None:
    odd: dict[str, Any] = {"1" * 32: None, "2" * 32: Row([1, 2]), "short": Row({}), "3" * 32: Row({}, 2**70)}  # type: ignore[arg-type]
    shelf.kept |= odd
    log_unusable_sid.cache_clear()
    with step(2):
        call_command("movesessions")
        said = capsys.readouterr().out
        assert "Moved 20 sessions. 0 had been moved before. 4 were not: " in said
        assert online.count(guests=True) == 20
        call_command("movesessions", finish=True)
        assert "4 are left" in capsys.readouterr().out
        assert shelf.kept.keys() == odd.keys()
        # What has ended is no cookie any more, whoever can read it.
        SessionStore("3" * 32).flush()
        assert "3" * 32 not in shelf.kept
        shelf.kept["3" * 32] = odd["3" * 32]
        call_command("movesessions", finish=True)
        assert "3 are left" in capsys.readouterr().out
    told = [each.getMessage() for each in caplog.records if "can't be used here" in each.getMessage()]
    # The source itself tells of those that it can't read.
    assert len(told) == 3
    assert not any(key in text for key in odd for text in told)


def test_a_session_that_ends_while_it_is_written_back_stops_no_other(shelf, step, capsys) -> None:
    with step(2):
        call_command("movesessions")
        for number in range(20):
            session = SessionStore(f"{number:032}")
            session["colour"] = "red"
            session.save()
        capsys.readouterr()
        call_command("movesessions", back=True)
        assert "Wrote 19 sessions back into their rows" in capsys.readouterr().out
    assert sum("colour" in row.data for row in shelf.kept.values() if row is not None) == 19


def test_the_command_goes_on_where_it_was(old_session, step, monkeypatch, capsys) -> None:
    monkeypatch.setattr(in_bulk, "PAGE", 3)
    for number in range(10):
        old_session(basket=number)
    with step(2):
        keys = sorted(Session.objects.values_list("pk", flat=True))
        pages = list(in_bulk.move_rows(after=keys[4]))
        assert [page.last for page in pages] == [keys[7], keys[9]]
        assert sum(page.done for page in pages) == 5
