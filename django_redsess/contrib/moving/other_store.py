"""What operations on many sessions do in the store that sessions are moved from: see ``session/other_store.py``."""

from __future__ import annotations

from collections.abc import Sequence

from django_redsess.contrib.moving import marks
from django_redsess.contrib.moving.sources import source
from django_redsess.session.other_store import EndBefore, Watched
from django_redsess.transport.keys import Store
from django_redsess.transport.steps import Steps


class ForeignStore:
    """The store of ``MOVE_FROM``: nobody can list whose sessions it has. So it is noted here what was ended there."""

    @property
    def display_name(self) -> str:
        return source().name

    def own_stores(self) -> Sequence[Store | None]:
        return (None,)

    def note_end_before(self, which: EndBefore) -> Steps[None]:
        yield from marks.end_before(which)

    def note_ends(self, sids: Sequence[str]) -> Steps[None]:
        yield from marks.set_marks([(sid, None, marks.HERE) for sid in sids])

    def find_living(self, watched: Sequence[Watched]) -> Steps[list[bool]]:
        return (yield from marks.living(watched))
