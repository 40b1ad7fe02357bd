"""What a session viewed. The functions return calls or steps, as in :mod:`django_redsess.session.operations`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from django_redsess.conf import conf
from django_redsess.session import deadlines, operations
from django_redsess.session.lifecycle import SessionLifecycle
from django_redsess.session.operations import time_of
from django_redsess.session.reading import Touch, templates
from django_redsess.session.viewing import items_max, viewing, viewing_keys
from django_redsess.transport import scripts
from django_redsess.transport.keys import keyspace
from django_redsess.transport.steps import Call, Steps

ITEM_BYTES_MAX = 64


def item_id(item: str | int) -> str:
    """Return ``item`` as text. Raises ValueError unless it is an integer, or text of 1 to 64 bytes in UTF-8."""
    if isinstance(item, (str, int)) and not isinstance(item, bool):
        # Text that is no UTF-8 and integers of thousands of digits raise ValueError with another message.
        with suppress(ValueError):
            text = str(item)
            if 1 <= len(text.encode()) <= ITEM_BYTES_MAX:
                return text
    raise ValueError(f"An item id is an integer, or text of 1 to {ITEM_BYTES_MAX} bytes in UTF-8.")


def view(sid: str, item: str, touch: Touch = Touch.NOTHING) -> Call[bool]:
    """
    Record that a live session viewed ``item``, and count the view. ``touch`` tells how the session is touched.

    A view that is ``counted_elsewhere`` is not counted here: :func:`count_view` counts it. False if the session is
    gone.
    """
    space = keyspace()
    partition = space.of_sid(sid)
    keys, args = viewing_keys(partition, item), scripts.RECORD_VIEW.arguments(sid=sid, **viewing(item))
    if touch is Touch.NOTHING:
        return Call(partition, scripts.RECORD_VIEW, keys, args, bool)
    _, _, touching, _ = templates(space.prefix, space.count)[space.number_of(sid)]
    name = sid.encode()

    def touches(now: int) -> bytes:
        seen = now - now % (conf.TOUCH_INTERVAL * 1000 or 1)
        return touching % (seen, name, seen, name)

    return Call(partition, scripts.RECORD_VIEW, keys, args, _noted, (), touches, 2)


def count_view(item: str) -> Call[bool]:
    """Count a view of ``item`` that was recorded in another partition."""
    partition = keyspace().of_item(item)
    keys = scripts.COUNT_VIEW.keys(partition, popularity=partition.viewed)
    return Call(
        partition, scripts.COUNT_VIEW, keys, scripts.COUNT_VIEW.arguments(item=item, items_max=items_max()), bool
    )


def history(sid: str, *, limit: int) -> Call[list[tuple[str, datetime]]]:
    """Read what a live session viewed: items and times, newest first, at most ``limit``."""
    partition = keyspace().of_sid(sid)
    script = scripts.RECENT_ITEMS
    return Call(partition, script, script.keys(partition), script.arguments(sid=sid, limit=limit), _history)


def forget(sid: str, item: str | None = None) -> Call[int]:
    """Forget that a session viewed ``item`` (None: all items). Return how many items were forgotten."""
    partition = keyspace().of_sid(sid)
    script = scripts.FORGET_ITEMS
    keys = script.keys(partition, items=partition.viewed_by(sid))
    return Call(partition, script, keys, script.arguments(item=item), int)


def record_view(session: SessionLifecycle, item: str) -> Steps[bool]:
    """Record that ``session`` viewed ``item``, and count the view. Return False if nothing was recorded."""
    if (sid := session.stored_sid) is not None:
        if session.touch is Touch.ACTIVE and deadlines.may_move():
            # The new deadline is known only after the session has been read.
            yield from session.opening()
        noted = yield from view(sid, item, session.touch)
        if noted:
            if operations.counted_elsewhere(sid, item):
                yield from count_view(item)
            return True
    if not (conf.VIEWED_GUESTS and session.visit is not None and session.visit.begins_by_view):
        return False
    yield from session.opening()
    if session.session_key is not None or session.cookie.late:
        return False
    session.viewed(item)
    yield from session.saving()
    yield from count_pending_view(session)
    return True


def count_pending_view(session: SessionLifecycle) -> Steps[None]:
    """Count the view that a save of ``session`` recorded, if the item is counted in another partition."""
    item = session.pending.uncounted
    if item:
        session.pending = session.pending._replace(uncounted="")
        yield from count_view(item)


def _noted(reply: int, _: Sequence[Any]) -> bool:
    return bool(reply)


def _history(reply: list[bytes]) -> list[tuple[str, datetime]]:
    pairs = zip(reply[::2], reply[1::2], strict=True)
    # Another program may have written anything.
    return [(item.decode(errors="replace"), time_of(at)) for item, at in pairs]
