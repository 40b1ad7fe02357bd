"""The table of sessions that the command ``online`` prints, as wide as the terminal allows."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from django.template.defaultfilters import filesizeformat
from django.utils import timezone
from django.utils.timesince import timesince

from django_redsess.management.people import owner_of
from django_redsess.online import presentation
from django_redsess.online.presentation import printable

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

    from django_redsess.online import Session

AGES = {
    "year": "%(num)d y ago",
    "month": "%(num)d mon ago",
    "week": "%(num)d w ago",
    "day": "%(num)d d ago",
    "hour": "%(num)d h ago",
    "minute": "%(num)d min ago",
}

DROPPED_FIRST = ("size", "expires", "newest item", "browser", "address", "signed in")
"""The columns that a narrow terminal leaves out, in this order. The others always stay."""

CUT_TO = {"user": 12, "address": 15, "browser": 20, "newest item": 12}
"""The columns that may be cut, and the width that they keep."""

GAP = "  "


def lines(sessions: Sequence[Session], users: Mapping[str, AbstractBaseUser], width: int) -> Iterator[str]:
    """
    Yield the lines of the table, at most ``width`` wide. If columns are left out, a last line names them.

    ``users`` maps ids to the users of the sessions. ``sessions`` must not be empty.
    """
    rows = [_cells(session, users) for session in sessions]
    widths = _widths(rows, width)
    for row in ({title: title.upper() for title in widths}, *rows):
        yield GAP.join(_fit(row[title], widths[title], title) for title in widths).rstrip()
    if dropped := [title for title in rows[0] if title not in widths]:
        yield f"Too wide: {', '.join(dropped)}. All columns: … | less -S"


def _cells(session: Session, users: Mapping[str, AbstractBaseUser]) -> dict[str, str]:
    ago = "just now"
    if (timezone.now() - session.seen_at).total_seconds() >= 60:
        ago = timesince(session.seen_at, time_strings=AGES, depth=1)
    return {
        "user": owner_of(session, users),
        "signed in": _time(session.login_at) if session.login_at else "",
        "last seen": _with_plain_spaces(ago),
        "expires": _time(session.expires_at),
        "address": printable(presentation.stored(session.address)),
        "browser": printable(presentation.stored(presentation.browser_name(session.user_agent))),
        "size": _with_plain_spaces(filesizeformat(session.size)),
        "newest item": printable(session.newest_item),
        "sid": printable(session.sid),
    }


def _time(at: datetime) -> str:
    return f"{timezone.localtime(at):%Y-%m-%d %H:%M}"


def _with_plain_spaces(text: str) -> str:
    # Django puts a no-break space between number and unit.
    return text.replace("\xa0", " ")


def _widths(rows: list[dict[str, str]], room: int) -> dict[str, int]:
    """Choose columns and widths that fit into ``room``. Leave columns out first, then cut some of the others."""
    widths = {title: max(len(title), *(_width(row[title]) for row in rows)) for title in rows[0]}

    def too_wide(widths: Mapping[str, int]) -> bool:
        return sum(widths.values()) + len(GAP) * (len(widths) - 1) > room

    def least() -> dict[str, int]:
        return {title: min(width, CUT_TO.get(title, width)) for title, width in widths.items()}

    for title in DROPPED_FIRST:
        if too_wide(least()):
            del widths[title]
    while too_wide(widths) and (wider := [title for title, width in least().items() if width < widths[title]]):
        widths[max(wider, key=widths.__getitem__)] -= 1
    return widths


def _width(text: str) -> int:
    return sum(_cell_width(character) for character in text)


def _cell_width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _fit(text: str, width: int, title: str) -> str:
    if _width(text) > width:
        while _width(text) > width - 1:
            text = text[:-1]
        text += "…"
    padding = " " * (width - _width(text))
    return padding + text if title == "size" else text + padding
