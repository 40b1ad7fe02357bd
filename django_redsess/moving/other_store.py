"""What operations on many sessions do in the store that sessions are moved from: see ``session/elsewhere.py``."""

from __future__ import annotations

from collections.abc import Sequence

from django_redsess.moving import marks
from django_redsess.moving.sources import OwnSource, source
from django_redsess.session import script_calls
from django_redsess.session.elsewhere import EndedBefore
from django_redsess.transport.keys import Store
from django_redsess.transport.round_trips import Steps, in_store


class OtherStore:
    """The store of ``MOVE_FROM``."""

    @property
    def name(self) -> str:
        return source().name

    def stores(self) -> list[Store]:
        found = source()
        return [found.store] if isinstance(found, OwnSource) else []

    def end_before(self, which: EndedBefore) -> Steps[None]:
        for store in self.stores():
            # They have been ended there. What was read there before, and is about to come here, must not.
            which = which._replace(latest=(yield from in_store(store, script_calls.time)))
        yield from marks.end_before(which)

    def end(self, sids: Sequence[str]) -> Steps[None]:
        yield from marks.set_marks([(sid, None, marks.HERE) for sid in sids])

    def lives(self, sid: str, user_id: str, began_at: int) -> Steps[bool]:
        if (yield from script_calls.read(sid)).record is not None:
            return True
        for store in self.stores():
            return (yield from in_store(store, script_calls.read, sid)).record is not None
        left = yield from marks.left_of(sid)
        return not (left.note or left.mark) and (yield from marks.lives(sid, user_id, began_at)) is not None
