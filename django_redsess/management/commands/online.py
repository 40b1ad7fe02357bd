from __future__ import annotations

import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.core.exceptions import FieldDoesNotExist
from django.core.management.base import BaseCommand, CommandError, CommandParser, no_translations
from django.db.models import Q
from django.template.defaultfilters import filesizeformat
from django.utils import timezone
from django.utils.timesince import timesince

from django_redsess import online
from django_redsess.management.people import owner_of, say, told_as_errors, user_named
from django_redsess.online import presentation
from django_redsess.online.presentation import printable
from django_redsess.online.queries import USERS_MAX
from django_redsess.online.samples import evicted
from django_redsess.querysets.rows import READ_AT_ONCE
from django_redsess.querysets.sessions import users_by_id
from django_redsess.transport.keys import is_sid

if TYPE_CHECKING:
    from datetime import datetime

    from django.contrib.auth.models import AbstractBaseUser

LIMIT = 50

ORDERS = ("login_at", "-login_at", "seen_at", "-seen_at")

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

AGES = {
    "year": "%(num)d y ago",
    "month": "%(num)d mon ago",
    "week": "%(num)d w ago",
    "day": "%(num)d d ago",
    "hour": "%(num)d h ago",
    "minute": "%(num)d min ago",
}

DROPPED_FIRST = ("size", "expires", "newest item", "browser", "address", "signed in")
"""The columns that a narrow terminal does without, in this order. Without the others, a row would be of no use."""

CUT_TO = {"user": 12, "address": 15, "browser": 20, "newest item": 12}
"""The columns that may be cut, and to which width at the most."""

GAP = "  "


class Command(BaseCommand):
    help = (
        "List the sessions in which somebody is signed in, the newest sign-in first: who it is, since when, when last "
        "seen, from where and with which browser, and the sid, by which endsessions ends it. Times are those of "
        "TIME_ZONE. A terminal that is too narrow for all columns gets fewer; a pipe or a file gets all. With --json, "
        "each session is one line of JSON, with times in UTC. No session key is shown: nothing here works as a cookie."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.epilog = (
            "Examples: manage.py online; manage.py online --user alice --user bob; manage.py online --search example "
            "--active 5m; manage.py online --everyone --limit 200; manage.py online --order -seen_at; manage.py online "
            "--json --limit 1000000 | jq -r .address | sort | uniq -c"
        )
        add = parser.add_argument
        add("--user", action="append", metavar="USERNAME", help="only this user's sessions; can be given several times")
        add("--search", metavar="TERM", help="only users who have TERM in their user name, e-mail address or names")
        add("--staff", action="store_true", help="only members of staff")
        add("--everyone", action="store_true", help="guests too: everybody who has a session, last seen first")
        add("--active", metavar="TIME", help="only who was seen in the last TIME, such as 90s, 5m, 1h or 1d")
        add("--sid", help="only this session, a guest's too")
        add("--order", metavar="FIELD", help=f"{', '.join(ORDERS)}: with a minus, the latest first")
        add("--limit", type=int, default=LIMIT, metavar="N", help=f"list at most so many (default: {LIMIT})")
        add("--offset", type=int, default=0, metavar="N", help="leave out so many before")
        add("--json", action="store_true", help="one line of JSON for each session, and nothing else on stdout")

    def run_from_argv(self, argv: list[str]) -> None:
        # What begins with a minus would be taken for an option, unless it is joined to the name of its own.
        at = argv.index("--order") + 1 if "--order" in argv[:-1] else 0
        if at and argv[at] in ORDERS:
            argv = [*argv[: at - 1], f"--order={argv[at]}", *argv[at + 1 :]]
        super().run_from_argv(argv)

    @no_translations
    def handle(self, *args: Any, **options: Any) -> None:
        self.options = options
        self._validate()
        try:
            with told_as_errors():
                self._list()
                self.stdout.flush()
        except BrokenPipeError:
            # Whoever read it has seen enough, as `head` has. Python would flush the rest at exit, and complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _validate(self) -> None:
        options = self.options
        for option, least in (("limit", 1), ("offset", 0)):
            if options[option] < least:
                raise CommandError(f"--{option} must be {least} or more, not {options[option]}.")
        order = options["order"]
        if order not in (None, *ORDERS):
            raise CommandError(f"--order must be {', '.join(ORDERS[:-1])} or {ORDERS[-1]}, not {order}.")
        of_users = [f"--{name}" for name in ("user", "search", "staff") if options[name]]
        given = [f"--{name}" for name in ("everyone", "active") if options[name]]
        if options["sid"] is not None and (others := of_users + given):
            raise CommandError(f"--sid and {others[0]} can't be given together.")
        if options["everyone"] and of_users:
            raise CommandError(f"--everyone and {of_users[0]} can't be given together: guests are no users.")
        if given and order and order.lstrip("-") == "login_at":
            raise CommandError(f"--order must be seen_at or -seen_at with {given[0]}, not {order}.")
        if options["sid"] is not None and not is_sid(options["sid"]):
            raise CommandError(f"--sid: {printable(options['sid'])} is no sid. It has 20 characters.")
        self._active_seconds = self._seconds()

    def _seconds(self) -> float | None:
        time = self.options["active"]
        if time is None:
            return None
        match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd])", time)
        if match is None or not float(match[1]):
            raise CommandError(f"--active must be a time such as 90s, 5m, 1h or 1d, not {printable(time)}.")
        return float(match[1]) * SECONDS[match[2]]

    def _list(self) -> None:
        if self.options["sid"]:
            found = online.find([self.options["sid"]])
            count, pages = len(found), iter([found])
        else:
            which: dict[str, Any] = {
                "user_ids": self._user_ids(),
                "guests": self.options["everyone"],
                "active_seconds": self._active_seconds,
            }
            count = online.count(**which)
            pages = self._pages(which, count)
        if self.options["json"]:
            for page in pages:
                users = users_by_id({session.user_id for session in page})
                for session in page:
                    self.stdout.write(_as_json(session, users))
        else:
            self._print([session for page in pages for session in page], count)

    def _pages(self, which: dict[str, Any], count: int) -> Iterator[list[online.Session]]:
        first = self.options["offset"]
        end = min(count, first + self.options["limit"])
        for start in range(first, end, READ_AT_ONCE):
            limit = min(READ_AT_ONCE, end - start)
            yield online.sessions(offset=start, limit=limit, order=self.options["order"], **which)

    def _user_ids(self) -> list[str] | None:
        names, term, staff = self.options["user"], self.options["search"], self.options["staff"]
        if not (names or term or staff):
            return None
        model = get_user_model()
        users = model._base_manager.all()
        if names:
            found = {name: user_named(name) for name in names}
            if unknown := [printable(name) for name, user in found.items() if user is None]:
                raise CommandError(f"--user: there is no user {' and no '.join(unknown)}.")
            users = users.filter(pk__in=[user.pk for user in found.values() if user is not None])
        if term:
            fields = [model.USERNAME_FIELD, model.get_email_field_name(), "first_name", "last_name"]
            terms = [(f"{field}__icontains", term) for field in dict.fromkeys(fields) if _has(model, field)]
            users = users.filter(Q(*terms, _connector=Q.OR))
        if staff:
            if not _has(model, "is_staff"):
                raise CommandError("--staff: the users of this site have no field is_staff.")
            users = users.filter(is_staff=True)
        matching = list(users.order_by("pk").only("pk")[: USERS_MAX + 1])
        if len(matching) > USERS_MAX:
            text = f"More than {USERS_MAX:,} users match: only sessions of the first {USERS_MAX:,} are listed."
            say(text, self.stderr)
        return [online.user_id_of(user) for user in matching[:USERS_MAX]]

    def _print(self, sessions: list[online.Session], count: int) -> None:
        if sessions:
            users = users_by_id({session.user_id for session in sessions})
            rows = [_cells(session, users) for session in sessions]
            # A file or another program has room for everything.
            room = shutil.get_terminal_size().columns if self.stdout.isatty() else sys.maxsize
            widths = _widths(rows, room)
            say(GAP.join(_fit(title.upper(), widths[title], title) for title in widths).rstrip(), self.stdout)
            for row in rows:
                say(GAP.join(_fit(row[title], widths[title], title) for title in widths).rstrip(), self.stdout)
            if dropped := [title for title in rows[0] if title not in widths]:
                say(f"Too wide for this terminal: {', '.join(dropped)}.", self.stdout)
        say(self._sentence(len(sessions), count), self.stdout)
        if self.options["everyone"] and (history := online.history()):
            users_evicted, guests_evicted = evicted(history)
            if users_evicted or guests_evicted:
                text = f"Evicted in the last 24 hours: {guests_evicted:,} of guests, {users_evicted:,} of users."
                say(text, self.stdout)

    def _sentence(self, shown: int, count: int) -> str:
        first, options = self.options["offset"], self.options
        if not count:
            if any(options[name] for name in ("user", "search", "staff", "active", "sid")):
                return "No such session is online."
            return "Nobody is online." if options["everyone"] else "Nobody is signed in."
        total = f"{count:,} {'session is' if count == 1 else 'sessions are'} online."
        if options["sid"] or shown >= count:
            return total
        if not shown:
            return f"{total} There are none after the first {first:,}."
        last = first + shown
        these = f"{shown:,}" if not first else f"{first + 1:,} to {last:,}"
        more = f": --offset {last} shows the next." if last < count else "."
        return f"{total} {these} of {count:,}{more}"


def _has(model: type[AbstractBaseUser], field: str) -> bool:
    try:
        model._meta.get_field(field)
    except FieldDoesNotExist:
        return False
    return True


def _cells(session: online.Session, users: Mapping[str, AbstractBaseUser]) -> dict[str, str]:
    ago = "just now"
    if (timezone.now() - session.seen_at).total_seconds() >= 60:
        ago = timesince(session.seen_at, time_strings=AGES, depth=1)
    return {
        "user": owner_of(session, users),
        "signed in": _time(session.login_at) if session.login_at else "",
        "last seen": _with_plain_spaces(ago),
        "expires": _time(session.expires_at),
        "address": printable(session.address),
        "browser": printable(presentation.browser_name(session.user_agent)),
        "size": _with_plain_spaces(filesizeformat(session.size)),
        "newest item": printable(session.newest_item),
        "sid": printable(session.sid),
    }


def _time(at: datetime) -> str:
    return f"{timezone.localtime(at):%Y-%m-%d %H:%M}"


def _with_plain_spaces(text: str) -> str:
    # Django ties number and unit together, for pages.
    return text.replace("\xa0", " ")


def _as_json(session: online.Session, users: Mapping[str, AbstractBaseUser]) -> str:
    user = users.get(session.user_id)
    return json.dumps(
        {
            "sid": session.sid,
            "user_id": session.user_id,
            "username": None if user is None else str(user.get_username()),
            "login_at": session.login_at and session.login_at.isoformat(),
            "seen_at": session.seen_at.isoformat(),
            "expires_at": session.expires_at.isoformat(),
            "address": session.address,
            "user_agent": session.user_agent,
            "browser": presentation.browser_name(session.user_agent),
            "size": session.size,
            "newest_item": session.newest_item,
        }
    )


def _widths(rows: list[dict[str, str]], room: int) -> dict[str, int]:
    """Choose the columns, and their widths, that fit into ``room``: some are left out, then some are cut."""
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
