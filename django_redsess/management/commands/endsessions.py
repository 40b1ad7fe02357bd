from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from django.core.management.base import CommandError, CommandParser, no_translations

from django_redsess import online
from django_redsess.clock import monotonic
from django_redsess.conf import conf
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.management.client_filters import about_empty_list, add_client_filters, client_filters, given_filters
from django_redsess.management.terminal import (
    LINE_SECONDS,
    STOPPED,
    USER_HELP,
    CommandWithExamples,
    StopRequest,
    add_message_options,
    command_errors,
    find_user,
    is_terminal,
    message_of,
    owner_name,
    print_line,
    progress_bar,
    require_terminal,
    unknown_users_text,
)
from django_redsess.online import EndedList, Session, labels
from django_redsess.online.ending import confirmed_too_few, least_confirmed
from django_redsess.online.labels import printable
from django_redsess.online.listing import USERS_MAX, SessionFilter, filter_of, iterate_pages, moving_from
from django_redsess.online.searching import SearchMatcher
from django_redsess.querysets import users_by_id
from django_redsess.session.operations import AT_ONCE_MAX
from django_redsess.session.store import user_id_of
from django_redsess.signals import collect_actions
from django_redsess.transport import agreement
from django_redsess.transport.keys import is_sid
from django_redsess.transport.steps import drive

NAMED_MAX = 20
"""The most users who are named, if sessions are chosen by their clients."""


class Command(CommandWithExamples):
    help = (
        "End sessions: all sessions of a user, one session by its id, which the command online shows, or all sessions "
        "of a network, a browser or a system. It shows how many these are, and asks. The next request of each session "
        "finds itself signed out. It can be stopped at any moment: the sessions ended so far stay ended, and it says "
        "how many."
    )
    examples = (
        "manage.py endsessions alice",
        "manage.py endsessions alice --dry-run",
        "manage.py endsessions alice bob Zk1.vV0qUoT7_bXn3sLa",
        "manage.py endsessions alice --keep Zk1.vV0qUoT7_bXn3sLa",
        "manage.py endsessions --network 198.51.100.0/24 --dry-run",
        "manage.py endsessions --network @tor-exits.txt --message 'Please sign in again, without Tor.'",
        "manage.py endsessions alice --browser 'Chrome 120'",
        "manage.py endsessions --all --noinput --message 'Please sign in again: we have moved.'",
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("targets", nargs="*", metavar="USER|ID", help=f"a user, {USER_HELP}; or a session, by id")
        add("--all", action="store_true", help="all signed-in sessions")
        add_client_filters(parser)
        key_help = (
            "with --all: use the new SECRET_KEY from now on, after it was replaced without SECRET_KEY_FALLBACKS. "
            "Guests' sessions that ENCRYPTION_KEYS have encrypted stay"
        )
        add("--new-secret-key", action="store_true", help=key_help)
        add("--keep", action="append", metavar="ID", help="do not end this session; can be repeated")
        add_message_options(parser, "on their next page")
        add("--dry-run", action="store_true", help="show which sessions would end, and end none")
        add("--noinput", "--no-input", action="store_false", dest="interactive", help="do not ask")
        json_help = 'print {"ended": N} at the end, with --dry-run {"would_end": N}, and nothing else on stdout'
        add("--json", action="store_true", help=json_help)

    @no_translations
    def handle(self, *args: Any, **options: Any) -> None:
        self.options = options
        self._replicas: int | None = None
        self._validate()
        with command_errors():
            if options["new_secret_key"]:
                if options["interactive"]:
                    require_terminal("end all sessions")
                # Until the new key is taken, all other operations fail.
                drive(agreement.take_new_secret_key())
            self._resolve()
            count = self._print_targets()
            nothing = f"{about_empty_list(self._client_filters)}There is nothing to end."
            if options["dry_run"]:
                sentence = f"Would end {self._whose}." if count else nothing
                self._print_result("would_end", count, sentence)
                return
            is_nothing = not (count or moving_from())
            if is_nothing and conf.CONFIRM_ENDS is None:
                self._print_result("ended", 0, nothing)
            elif is_nothing or self._confirmed(count):
                self._end_targets(count)
            else:
                self._print_result("ended", 0, "Nothing was ended.")

    def _validate(self) -> None:
        options = self.options
        self._client_filters, filters = client_filters(options), given_filters(options)
        if options["all"] and filters:
            raise CommandError(f"--all ends all sessions: leave it out with {filters[0]}.")
        if options["all"] and options["targets"]:
            raise CommandError("--all ends all sessions: give no user names or ids with it.")
        if not (options["all"] or options["targets"] or filters):
            raise CommandError("Give user names or ids, --network, --browser or --system, or --all.")
        if options["new_secret_key"] and not options["all"]:
            raise CommandError("--new-secret-key ends all sessions: give --all with it.")
        self.refuse_together("new_secret_key", "dry_run")
        self._message = message_of(options)

    def _resolve(self) -> None:
        """Look up the named users and sessions. Raises CommandError if a name is unknown or ambiguous."""
        targets = list(dict.fromkeys(self.options["targets"]))
        keep = list(dict.fromkeys(self.options["keep"] or ()))
        sessions = {session.sid: session for session in online.find([*targets, *keep])}
        users = {name: user for name in targets if (user := find_user(name)) is not None}
        _reject("A user and a session have this name:", [name for name in users if name in sessions])
        if unknown := [name for name in targets if name not in users and not is_sid(name)]:
            raise CommandError(f"Nothing was ended. {unknown_users_text(unknown, ' or session')}")
        # With a mistyped sid, the session to keep would end.
        _reject("--keep: there is no session", [sid for sid in keep if sid not in sessions])
        if len(users) > USERS_MAX:
            raise CommandError(f"At most {USERS_MAX:,} users can be named at once, not {len(users):,}.")
        self.over = [name for name in targets if name not in users and name not in sessions]
        self.users = {user_id_of(user): user for user in users.values()}
        self.kept = [sessions[sid] for sid in keep]
        chosen = [sessions[sid] for sid in targets if sid in sessions and sid not in keep]
        # If the user of a named session is named, too, the session is counted with that user's sessions.
        self.single = [session for session in chosen if session.user_id not in self.users]
        if filters := given_filters(self.options):
            _reject(f"With {filters[0]}, only users can be named, not the session", [*self.over, *map(_sid, chosen)])
            self.single = self._matching()

    def _matching(self) -> list[Session]:
        """Return the sessions that match the filters, without those to keep."""
        matcher, kept = SearchMatcher(filter_of(None, **self._client_filters)), set(map(_sid, self.kept))
        found = list[Session]()
        # Several users' lists would have to be sorted, and this has a limit.
        each_asked = [filter_of([user_id]) for user_id in self.users] or [filter_of(None)]
        wanted = self.options["verbosity"] > 0 and is_terminal(sys.stderr)
        with progress_bar(sum(map(_count, each_asked)) if wanted else 0, wanted=wanted) as bar:
            for page in chain.from_iterable(iterate_pages(asked, None) for asked in each_asked):
                found += [session for session in page if matcher.matches(session) and session.sid not in kept]
                if bar is not None:
                    bar.update(len(page))
        self.users = {}
        return found

    def _print_targets(self) -> int:
        """Print which sessions would end. Return their number."""
        if name := moving_from():
            these = "stay: they can't be searched" if given_filters(self.options) else "end, too, and are not counted"
            self._inform(f"Sessions move here from {name}. Those that have not moved {these}.")
        if self.options["new_secret_key"] and conf.ENCRYPTION_KEYS is not None:
            self._inform(
                "Guests' sessions that ENCRYPTION_KEYS have encrypted stay. cleansessions --max-guests 0 ends them."
            )
        for sid in self.over:
            self._inform(f"The session {sid} is over already, or never was.")
        if self.options["all"]:
            count = online.count() - sum(session.created_at is not None for session in self.kept)
            self._whose = f"{_sessions(count)}, all that are signed in"
            return count
        tally = _Tally()
        for user_id, user in self.users.items():
            kept = sum(session.user_id == user_id for session in self.kept)
            count = online.count(user_ids=[user_id]) - kept
            tally.add(user_id, count)
            name, but = printable(str(user.get_username())), f", and {kept:,} to keep" if kept else ""
            self._inform(f"{name}: {_sessions(count)}{but}")
        for session in self.single:
            tally.add(session.user_id)
        self._whose = str(tally)
        if given_filters(self.options):
            self._print_matching()
            return tally.sessions
        owners = users_by_id({session.user_id for session in self.single})
        for session in self.single:
            self._inform(f"{owner_name(session, owners)}: the session {session.sid}")
        return tally.sessions

    def _print_matching(self) -> None:
        """Print the users whose sessions match, those with the most first."""
        by_user = {session.user_id: session for session in self.single}
        counts = Counter(session.user_id for session in self.single).most_common()
        owners = users_by_id({user_id for user_id, _ in counts[:NAMED_MAX]})
        for user_id, count in counts[:NAMED_MAX]:
            self._inform(f"{owner_name(by_user[user_id], owners)}: {_sessions(count)}")
        if (more := len(counts) - NAMED_MAX) > 0:
            self._inform(f"… and {more:,} more users.")

    def _confirmed(self, count: int) -> bool:
        if not self.options["interactive"]:
            return True
        # Last of all checks: an error about a wrong name is more useful than one about the terminal.
        return self.confirm(f"End {self._whose}?", to=f"end {_sessions(count)}", refused="Nothing was ended.")

    def _end_targets(self, count: int) -> None:
        tally, stop, told = _Tally(), StopRequest(), monotonic()
        wanted = self.options["verbosity"] > 0 and count > AT_ONCE_MAX and is_terminal(sys.stderr)
        try:
            # A signal takes effect after the batch under way, so that all ended sessions are counted.
            with collect_actions() as done, progress_bar(count, wanted=wanted) as bar, stop.listening():
                for batch in self._batches():
                    self._replicas = least_confirmed(self._replicas, batch.confirmed_by)
                    for ended in batch:
                        tally.add(ended.user_id)
                    # These are counted already, and millions would fill the memory.
                    done.kicked.clear()
                    if bar is not None:
                        bar.update(len(batch))
                    elif monotonic() - told > LINE_SECONDS:
                        told = monotonic()
                        self._inform(f"Ended so far: {tally.sessions:,} of {_sessions(count)}.")
                    if stop.asked:
                        break
        except SessionStoreUnavailable as error:
            # Of the last batch, some may have ended.
            for ended in done.kicked:
                tally.add(ended.user_id)
            self._print_result("ended", tally.sessions)
            # It is unknown whether the batch without an answer has ended.
            raise CommandError(f"{error} Before that, {tally} were ended; run it again.") from error
        self._print_result("ended", tally.sessions, "" if stop.asked else f"Ended {tally}.{self._worth()}")
        if stop.asked:
            raise CommandError(f"Stopped. Ended {tally}.{self._worth()}", returncode=STOPPED)

    def _batches(self) -> Iterator[EndedList]:
        message = self._message
        sids = [session.sid for session in self.single]
        if conf.CONFIRM_ENDS is not None:
            # Replicas may lack an earlier end.
            sids += self.over
        for start in range(0, len(sids), AT_ONCE_MAX):
            yield online.end(*sids[start : start + AT_ONCE_MAX], message=message)
        if self.users or self.options["all"]:
            user_ids, keep = None if self.options["all"] else list(self.users), [session.sid for session in self.kept]
            yield from online.end_in_batches(user_ids=user_ids, keep_sids=keep, message=message)

    def _print_result(self, what: str, count: int, sentence: str = "") -> None:
        if sentence:
            self._inform(sentence)
        if self.options["json"]:
            confirmed = {} if self._replicas is None else {"confirmed_by": self._replicas}
            self.stdout.write(json.dumps({what: count, **confirmed}))

    def _worth(self) -> str:
        """Return a text about the replicas that hold what has ended, with a blank in front. ``""`` if none is asked."""
        again = " Run it again to check replication again." if confirmed_too_few(self._replicas) else ""
        return f" {labels.confirmation_text(self._replicas)}{again}" if self._replicas is not None else ""

    def _inform(self, line: str) -> None:
        """Print a line for a person. Without ``--noinput``, it is printed at any verbosity."""
        if self.options["verbosity"] > 0 or self.options["interactive"]:
            print_line(line, self.for_people)
            self.for_people.flush()


class _Tally:
    """Counts sessions and their owners. As a text it reads "12 sessions of 3 users"."""

    def __init__(self) -> None:
        self.sessions = self._guests = 0
        self._users: set[str] = set()

    def add(self, user_id: str, sessions: int = 1) -> None:
        self.sessions += sessions
        if not user_id:
            self._guests += sessions
        elif sessions:
            self._users.add(user_id)

    def __str__(self) -> str:
        named = ((len(self._users), "user"), (self._guests, "guest"))
        owners = [f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in named if count]
        return f"{_sessions(self.sessions)}{' of ' * bool(owners)}{' and '.join(owners)}"


def _sid(session: Session) -> str:
    return session.sid


def _count(session_filter: SessionFilter) -> int:
    return online.count(user_ids=session_filter.user_ids)


def _sessions(count: int) -> str:
    return f"{count:,} {'session' if count == 1 else 'sessions'}"


def _reject(what: str, names: Sequence[str]) -> None:
    if names:
        raise CommandError(f"{what} {', '.join(map(printable, names))}. Nothing was ended.")
