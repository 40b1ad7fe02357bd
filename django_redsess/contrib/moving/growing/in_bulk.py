"""All sessions of the store before, page by page."""

from __future__ import annotations

from collections.abc import Iterator

from django_redsess import cleaning
from django_redsess.contrib.moving.growing.stores import Stores, site_stores
from django_redsess.contrib.moving.growing.transfer import find_copies, read_originals, transfer_sessions
from django_redsess.contrib.moving.in_bulk import PageResult
from django_redsess.contrib.moving.sources.base import PAGE, PAGE_BYTES
from django_redsess.session import blocks
from django_redsess.transport import packing
from django_redsess.transport.keys import Partition, Store, keyspace, using
from django_redsess.transport.partitions import ask_each
from django_redsess.transport.steps import Steps, drive, in_store


def move_sessions(*, dry_run: bool = False) -> Iterator[PageResult]:
    """
    Move all sessions to the next store. Yield what became of each page; ``left`` are unreadable, or due meanwhile.

    Those that are due end before, where they are, and blocks are copied. Last, copies in the next store are looked for,
    whose moves a process that was stopped has not ended: a plain engine would take them for sessions.

    It can be stopped and run again at any time, twice at once, and beside the site's traffic. ``dry_run`` only counts.
    Raises SessionStoreUnavailable in an outage of either store.
    """
    both = site_stores()
    if not dry_run:
        with using(both.before):
            # No cleaner works in that store any more.
            for _ in cleaning.expire_sessions():
                pass
        _copy_blocks(both)
    for sids in _sid_pages(both.before):
        if dry_run:
            found = drive(in_store(both.before, read_originals, sids))
            done = sum(each.record is not None for each in found.values())
            yield PageResult(done, left=len(sids) - done, last=sids[-1])
            continue
        moved = drive(transfer_sessions(both, sids))
        yield PageResult(
            len(moved), left=_count_staying(both, [sid for sid in sids if sid not in moved]), last=sids[-1]
        )
        for _ in cleaning.evict_sessions():
            pass
    if not dry_run:
        for sids in _sid_pages(both.next):
            left = drive(in_store(both.next, find_copies, sids))
            yield PageResult(len(drive(transfer_sessions(both, left, are_copied=True))), last=sids[-1])


def _count_staying(both: Stores, sids: list[str]) -> int:
    """Count how many of these are still in the store before. The others have moved or ended meanwhile."""
    return sum(each.stays for each in drive(in_store(both.before, read_originals, sids)).values())


def _sid_pages(store: Store | None) -> Iterator[list[str]]:
    with using(store):
        partitions = keyspace().partitions
    for partition in partitions:
        cursor: int | None = None
        seen = set[str]()
        while cursor != 0:
            # The store is chosen for this command only: the caller uses other stores between two pages.
            cursor, sizes = drive(in_store(store, _sizes, partition, cursor or 0))
            page, size = list[str](), 0
            for sid, each in sizes.items():
                # ZSCAN may name a session several times.
                if sid in seen:
                    continue
                seen.add(sid)
                if page and (size + each > PAGE_BYTES or len(page) >= PAGE):
                    yield page
                    page, size = [], 0
                page.append(sid)
                size += each
            if page:
                yield page


def _sizes(partition: Partition, cursor: int) -> Steps[tuple[int, dict[str, int]]]:
    """Read names of sessions from ``cursor`` on, and how many bytes their records have. Return where to go on, too."""
    scan = packing.pack_command("ZSCAN", partition.expire, cursor, "COUNT", PAGE)
    [[[after, found]]] = yield from ask_each("scan", [partition], lambda number, at: scan, 1)
    sids = [sid.decode(errors="replace") for sid in found[::2]]
    asked = b"".join(packing.pack_command("HSTRLEN", partition.login, sid) for sid in sids)
    [sizes] = yield from ask_each("scan", [partition], lambda number, at: asked, len(sids))
    return int(after), dict(zip(sids, sizes, strict=True))


def _copy_blocks(both: Stores) -> None:
    offset = 0
    while page := drive(in_store(both.before, blocks.read_blocks, offset, PAGE)):
        for block, is_own in page:
            if is_own:
                # A block that was lifted in the next store stays lifted.
                drive(in_store(both.next, blocks.restore_block, block))
        offset += len(page)
