"""Print who is signed in: as a table as wide as the terminal allows, as lines of JSON, or as CSV."""

from __future__ import annotations

import json
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, get_args

from django.contrib.auth import get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.management.base import CommandError, CommandParser, no_translations
from django.db.models import Q
from django.template.defaultfilters import filesizeformat
from django.utils import timezone
from django.utils.timesince import timesince

from django_redsess import online
from django_redsess.management.client_filters import (
    CLIENT_FILTERS,
    about_empty_list,
    add_client_filters,
    client_filters,
    given_filters,
)
from django_redsess.management.terminal import (
    USER_HELP,
    CommandWithExamples,
    command_errors,
    csv_line,
    find_user,
    is_terminal,
    owner_name,
    parse_seconds,
    print_line,
    progress_bar,
    unknown_users_text,
)
from django_redsess.online import Session, fields, labels
from django_redsess.online.browsers import browser_name
from django_redsess.online.fields import ExportedRow, csv_row, exported_row
from django_redsess.online.labels import known_server_time, printable
from django_redsess.online.listing import (
    ROWS_MAX,
    USERS_MAX,
    filter_of,
    iterate_pages,
    moving_from,
    rows_end,
    seconds_of_active,
)
from django_redsess.online.sampling import count_evicted
from django_redsess.online.searching import LookedThrough, search
from django_redsess.querysets import READ_AT_ONCE, users_by_id
from django_redsess.session.store import user_id_of
from django_redsess.transport.keys import is_sid, keyspace

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
    for row in ({title: _heading(title) for title in widths}, *rows):
        yield GAP.join(_fit(row[title], widths[title], title) for title in widths).rstrip()
    if dropped := [title for title in rows[0] if title not in widths]:
        yield f"Too narrow for: {', '.join(dropped)}. All columns: manage.py online | less -S"


def _cells(session: Session, users: Mapping[str, AbstractBaseUser]) -> dict[str, str]:
    ago = "just now"
    now = known_server_time()
    if (now - session.last_seen_at).total_seconds() >= 60:
        ago = timesince(session.last_seen_at, now, time_strings=AGES, depth=1)
    return {
        "user": owner_name(session, users),
        "signed in": _time(session.created_at) if session.created_at else "",
        # Django puts a no-break space between number and unit.
        "last seen": ago.replace("\xa0", " "),
        "expires": _time(session.expires_at),
        "address": printable(labels.or_not_stored(session.address)),
        "browser": printable(labels.or_not_stored(browser_name(session.user_agent))),
        "size": filesizeformat(session.size).replace("\xa0", " ") if session.size else "",
        "newest item": printable(session.newest_item),
        "id": printable(session.sid),
    }


def _heading(title: str) -> str:
    zone = timezone.localtime(known_server_time()).tzname()
    named = f" ({zone})" if title == "signed in" and zone != "UTC" else ""
    return title.upper() + named


def _time(at: datetime) -> str:
    return f"{timezone.localtime(at):%Y-%m-%d %H:%M}"


def _widths(rows: list[dict[str, str]], room: int) -> dict[str, int]:
    """Choose columns and widths that fit into ``room``. Leave columns out first, then cut some of the others."""
    widths = {title: max(len(_heading(title)), *(_width(row[title]) for row in rows)) for title in rows[0]}

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
    # How many cells of a terminal the characters take.
    return sum(0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF") for each in text)


def _fit(text: str, width: int, title: str) -> str:
    if _width(text) > width:
        while _width(text) > width - 1:
            text = text[:-1]
        text += "…"
    padding = " " * (width - _width(text))
    return padding + text if title == "size" else text + padding


LIMIT = 50

ORDERS = get_args(online.Order)

FILTERS = ("user", "search", "staff", "active", *CLIENT_FILTERS)
"""The options that leave sessions out, apart from ``--id``."""


class Command(CommandWithExamples):
    help = (
        "List the signed-in sessions, the newest sign-in first: user, sign-in, last seen, deadline, address, browser, "
        "size, newest viewed item and id, which the command endsessions takes. Times are in TIME_ZONE; "
        "the heading names it, unless it is UTC. A narrow terminal gets fewer columns; a pipe or a file gets all. With "
        "--json, each session is one line of JSON, and with --csv one row of a CSV file; both have times in UTC. "
        "--browser, --system, --network and --device-bound look through the newest 10,000 sessions, and say so if "
        "there are more. No session key is shown: nothing here works as a cookie."
    )
    examples = (
        "manage.py online",
        "manage.py online --user alice --user bob",
        "manage.py online --active",
        "manage.py online --search example --active 1h",
        "manage.py online --guests --limit 200",
        "manage.py online --order -last_seen_at",
        "manage.py online --guests --network 198.51.100.0/24",
        "manage.py online --network @tor-exits.txt",
        "manage.py online --browser 'Chrome 120' --system Android",
        "manage.py online --csv --limit 1000000",
        "manage.py online --json --limit 1000000 | jq -r .address | sort | uniq -c",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("--user", action="append", metavar="USER", help=f"only of this user, {USER_HELP}; can be repeated")
        add("--search", metavar="TERM", help="only users with TERM in their user name, e-mail address or names")
        add("--staff", action="store_true", help="only members of staff")
        guests_help = "guests too, or with 'only' nobody else; the order is by last seen"
        add("--guests", nargs="?", const=True, default=False, metavar="only", help=guests_help)
        active_help = "only active sessions: seen in the last five minutes, or in the last TIME, such as 90s, 1h or 1d"
        add("--active", nargs="?", const=True, metavar="TIME", help=active_help)
        add_client_filters(parser)
        add("--id", metavar="ID", help="only this session, signed in or a guest's")
        add("--order", metavar="FIELD", help=f"{', '.join(ORDERS)}; a minus puts the latest first")
        add("--limit", type=int, default=LIMIT, metavar="N", help=f"list at most N sessions (default: {LIMIT})")
        add("--offset", type=int, default=0, metavar="N", help="skip the first N sessions")
        add("--json", action="store_true", help="print one line of JSON for each session, and nothing else on stdout")
        csv_help = "print a CSV file; a cell that a spreadsheet would take for a formula begins with an apostrophe"
        add("--csv", action="store_true", help=csv_help)

    def run_from_argv(self, argv: list[str]) -> None:
        # argparse takes a value that begins with a minus for an option, unless it is joined by an equals sign.
        at = argv.index("--order") + 1 if "--order" in argv[:-1] else 0
        if at and argv[at] in ORDERS:
            argv = [*argv[: at - 1], f"--order={argv[at]}", *argv[at + 1 :]]
        super().run_from_argv(argv)

    @no_translations
    def handle(self, *args: Any, **options: Any) -> None:
        self.options = options
        self._validate()
        self.output.is_all = True
        with command_errors():
            self._print_listed()

    def _validate(self) -> None:
        options = self.options
        self.require_from(1, "limit")
        self.require_from(0, "offset")
        order = options["order"]
        if order not in (None, *ORDERS):
            raise CommandError(f"--order must be {', '.join(ORDERS[:-1])} or {ORDERS[-1]}, not {order}.")
        of_users = [f"--{name}" for name in ("user", "search", "staff") if options[name]]
        by_seen = [f"--{name}" for name in ("guests", "active") if options[name]]
        self.refuse_together("json", "csv")
        if options["id"] is not None and (others := of_users + by_seen + given_filters(options)):
            raise CommandError(f"--id and {others[0]} can't be given together.")
        if options["guests"] not in (False, True, "only"):
            raise CommandError(f"--guests takes no value but 'only', not {printable(options['guests'])}.")
        if options["guests"] and of_users:
            raise CommandError(f"--guests and {of_users[0]} can't be given together: guests are not users.")
        if by_seen and order and order.lstrip("-") == "created_at":
            raise CommandError(f"--order must be last_seen_at or -last_seen_at with {by_seen[0]}, not {order}.")
        if options["id"] is not None and not is_sid(options["id"]):
            raise CommandError(f"--id: {printable(options['id'])} is not the id of a session. An id has 20 characters.")
        if options["search"] is not None and not options["search"].strip():
            raise CommandError("--search can't be empty.")
        self._client_filters = client_filters(options)
        active = options["active"]
        if active is not None:
            active = seconds_of_active() if active is True else parse_seconds(active, "--active")
        self._active_seconds = active

    def _print_listed(self) -> None:
        if self.options["id"]:
            found = online.find([self.options["id"]])
            count, pages = len(found), iter([found])
        else:
            count, pages = self._matching()
        if self.options["json"]:
            self._stream(pages, count, json.dumps)
        elif self.options["csv"]:
            # No byte order mark: a program in a pipe would take it for text.
            columns = fields.without_request(fields.SESSION)
            print_line(csv_line(column.name for column in columns), self.stdout)
            self._stream(pages, count, lambda record: csv_line(csv_row(record, columns)))
        else:
            self._print([session for page in pages for session in page], count)

    def _matching(self) -> tuple[int, Iterator[list[Session]]]:
        options = self.options
        filters: dict[str, Any] = {
            "user_ids": self._user_ids(),
            "guests": options["guests"],
            "active_seconds": self._active_seconds,
            **self._client_filters,
        }
        session_filter, order = filter_of(**filters), options["order"]
        if not session_filter.needs_search:
            if options["offset"] >= ROWS_MAX and rows_end(session_filter):
                rule = f"--offset must be below {ROWS_MAX:,} with several PARTITIONS"
                raise CommandError(f"{rule}, not {options['offset']:,}. --limit may be higher.")
            count = online.count(**filters)
            return count, iterate_pages(session_filter, order, offset=options["offset"], limit=options["limit"])
        by_seen = session_filter.only_by_seen or order in ("last_seen_at", "-last_seen_at")
        matching = search(session_filter, by_seen=by_seen)
        self._say_how_far(matching.looked_through, "sessions seen last" if by_seen else "newest sign-ins")
        latest_first = order is None or order.startswith("-")
        pages = matching.iterate_found(options["offset"], options["limit"], latest_first=latest_first)
        return matching.count, pages

    def _say_how_far(self, looked: LookedThrough, newest: str) -> None:
        if looked.is_all:
            return
        print_line(f"Looked through the {looked.count:,} {newest} only. Older ones may match, too.", self.stderr)

    def _stream(self, pages: Iterator[list[Session]], count: int, line_of: Callable[[ExportedRow], str]) -> None:
        total, written = max(0, min(count - self.options["offset"], self.options["limit"])), 0
        on_terminal = is_terminal(sys.stderr) and self.options["verbosity"] > 0
        wanted = on_terminal and total > READ_AT_ONCE and not self.stdout.isatty()
        columns = fields.without_request(fields.SESSION)
        with progress_bar(total, wanted=wanted) as bar:
            for page in pages:
                users = users_by_id({session.user_id for session in page})
                # The command endsessions takes these names.
                names = {user_id: user.get_username() for user_id, user in users.items()}
                for described in fields.describe_sessions(page, names):
                    print_line(line_of(exported_row(described, columns)), self.stdout)
                written += len(page)
                if bar is not None:
                    bar.update(len(page))
        if on_terminal:
            print_line(self._sentence(written, count), self.stderr)

    def _user_ids(self) -> list[str] | None:
        names, term, staff = self.options["user"], self.options["search"], self.options["staff"]
        if not (names or term or staff):
            return None
        model = get_user_model()
        users, fields = model._base_manager.all(), {field.name for field in model._meta.get_fields()}
        if names:
            found = {name: find_user(name) for name in names}
            if unknown := [name for name, user in found.items() if user is None]:
                raise CommandError(f"--user: {unknown_users_text(unknown)}")
            users = users.filter(pk__in=[user.pk for user in found.values() if user is not None])
        if term:
            searched = dict.fromkeys([model.USERNAME_FIELD, model.get_email_field_name(), "first_name", "last_name"])
            terms = [(f"{field}__icontains", term) for field in searched if field in fields]
            users = users.filter(Q(*terms, _connector=Q.OR))
        if staff:
            if "is_staff" not in fields:
                raise CommandError("--staff: the user model has no field is_staff.")
            users = users.filter(is_staff=True)
        matching = list(users.order_by("pk").only("pk")[: USERS_MAX + 1])
        if len(matching) > USERS_MAX:
            text = f"More than {USERS_MAX:,} users match: only sessions of the first {USERS_MAX:,} are listed."
            print_line(text, self.stderr)
        return [user_id_of(user) for user in matching[:USERS_MAX]]

    def _print(self, sessions: list[Session], count: int) -> None:
        if sessions:
            users = users_by_id({session.user_id for session in sessions})
            # A file, or another program, gets all columns.
            width = shutil.get_terminal_size().columns if self.stdout.isatty() else sys.maxsize
            for line in lines(sessions, users, width):
                print_line(line, self.stdout)
        print_line(self._sentence(len(sessions), count), self.stdout)
        if name := moving_from():
            print_line(
                f"Sessions move here from {name}. Those that have not moved are not listed or counted.", self.stdout
            )
        if self.options["guests"] and (samples := online.samples()):
            users_evicted, guests_evicted = count_evicted(samples)
            if users_evicted or guests_evicted:
                text = f"Evicted in the last 24 hours: {guests_evicted:,} of guests, {users_evicted:,} of users."
                print_line(text, self.stdout)

    def _sentence(self, listed: int, count: int) -> str:
        first, options = self.options["offset"], self.options
        filtered = any(options[name] for name in FILTERS)
        if not count:
            if filtered or options["id"]:
                return f"{about_empty_list(self._client_filters)}There is no such session."
            return "There is no session." if options["guests"] else "Nobody is signed in."
        if filtered or options["id"]:
            total = f"{count:,} {'session matches' if count == 1 else 'sessions match'}."
        else:
            are = "signed in" if not options["guests"] else "session" if count == 1 else "sessions"
            total = f"{count:,} {are}, {online.count(active=True, guests=options['guests']):,} active now."
        if options["id"] or listed >= count:
            return total
        if not listed:
            return f"{total} There are none after the first {first:,}."
        last = first + listed
        these = f"{last:,}" if listed == 1 else f"{first + 1:,} to {last:,}"
        more = "."
        if last < count:
            can_go_on = last < ROWS_MAX or keyspace().count == 1
            more = f"; --offset {last} shows the next." if can_go_on else "; a higher --limit shows more."
        return f"{total} Listed: {these}{more}"
