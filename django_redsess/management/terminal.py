"""What commands show and ask on a terminal: lines, questions, progress bars, finding users, examples in ``--help``."""

from __future__ import annotations

import csv
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout, suppress
from difflib import get_close_matches
from io import StringIO
from typing import TYPE_CHECKING, Any, cast

from django.contrib.auth import get_user_model
from django.core.checks import Tags
from django.core.exceptions import FieldError, ImproperlyConfigured, ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser, DjangoHelpFormatter, OutputWrapper
from django.db import DatabaseError
from redis.exceptions import ResponseError

from django_redsess.conf import LARGEST, MESSAGE_MAX, conf, is_integer
from django_redsess.documentation import page_url
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.online import Session
from django_redsess.online.labels import printable
from django_redsess.querysets import user_key, users_by_id
from django_redsess.session.store import user_id_of
from django_redsess.user_messages import check_message, clean_text, ready_message

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser


UNWRITTEN = 74
"""The exit status of a command whose output can't be written: EX_IOERR of ``sysexits.h``."""


class UnwrittenError(Exception):
    """The output can't be written, and the command does nothing else."""


class Output:
    """
    A stream that a command writes to: ``stream``, or None for one that was closed before Python began.

    Text that can't be written is dropped, and the command goes on. ``failure`` is the reason. A command that only
    prints sets ``is_all``: then :class:`UnwrittenError` is raised. Letters that the encoding of the stream lacks are
    written as escapes.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.failure: Exception | None = None
        self.is_all = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> None:
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        with self._leaving_out():
            if self.stream is None:
                raise ValueError("it is closed")
            self.stream.write(text.encode(encoding, "backslashreplace").decode(encoding))

    def flush(self) -> None:
        with self._leaving_out():
            # A ``stdout`` that a program passes may have ``write`` only.
            if hasattr(self.stream, "flush"):
                self.stream.flush()

    def isatty(self) -> bool:
        return is_terminal(self.stream)

    @contextmanager
    def _leaving_out(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:  # ValueError: this process has closed the file.
            self.failure = error
            if self.is_all:
                raise UnwrittenError from error

    @property
    def reason(self) -> str:
        """Why text is missing in the output. ``""`` if none is missing, or if the reader has closed the pipe."""
        if self.failure is None or (self.is_all and isinstance(self.failure, BrokenPipeError)):
            return ""
        return str(getattr(self.failure, "strerror", None) or self.failure).rstrip(".")


def drop_unwritten_output() -> None:
    """Drop the text that ``sys.stdout`` and ``sys.stderr`` can't write. Python would fail to write it at its exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def is_terminal(stream: Any) -> bool:
    """Tell whether this stream is a terminal. False for a closed stream and for None."""
    return hasattr(stream, "isatty") and not getattr(stream, "closed", False) and stream.isatty()


class CommandWithExamples(BaseCommand):
    """
    A command whose help shows its ``exit_status``, the URL of its reference, and ``examples`` to copy, one a line.

    If its output can't be written, the command does its work all the same: see :class:`Output`. Then it ends with
    :data:`UNWRITTEN`, and one line on stderr says why.
    """

    examples: Sequence[str]
    exit_status = "0 when all is done, 1 after an error, 130 after Ctrl-C."
    options: dict[str, Any]
    # Without the checks that ask the server: the command asks the server itself, and reports errors.
    requires_system_checks = (Tags.caches, Tags.security)

    def __init__(self, stdout: Any = None, stderr: Any = None, **colors: bool) -> None:
        self.output = Output(stdout or sys.stdout)
        super().__init__(cast(Any, self.output), cast(Any, Output(stderr or sys.stderr)), **colors)

    def run_from_argv(self, argv: list[str]) -> None:
        # --help is printed before ``execute`` is called.
        shown = Output(sys.stdout)
        shown.is_all = True
        try:
            with redirect_stdout(cast(Any, shown)):
                super().run_from_argv(argv)
        except UnwrittenError:
            sys.exit(UNWRITTEN if shown.reason else 0)
        except SystemExit as stopped:
            with suppress(UnwrittenError):
                shown.flush()
            if shown.reason and not stopped.code:
                sys.exit(UNWRITTEN)
            raise
        finally:
            drop_unwritten_output()

    def execute(self, *args: Any, **options: Any) -> str | None:
        if options.get("stdout"):
            options["stdout"] = self.output = Output(options["stdout"])
        if options.get("stderr"):
            options["stderr"] = Output(options["stderr"])
        said = None
        with suppress(UnwrittenError):
            said = super().execute(*args, **options)
            self.output.flush()
        if self.output.reason:
            done = "" if self.output.is_all else " All else is done."
            raise CommandError(f"The output can't be written: {self.output.reason}.{done}", returncode=UNWRITTEN)
        return said

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        status = f"{self.exit_status.removesuffix('.')};\n  {UNWRITTEN} if its output could not be written."
        about = f"Exit status: {status}\nRead on: {page_url('reference/commands', subcommand)}"
        epilog = f"{about}\n\n" + "\n  ".join(["Examples:", *self.examples])
        return super().create_parser(prog_name, subcommand, formatter_class=_Help, epilog=epilog, **kwargs)

    def refuse_together(self, *names: str) -> None:
        """Raise CommandError if more than one of these options is given."""
        # By identity: 0 counts as given.
        given = [name for name in names if self.options[name] is not None and self.options[name] is not False]
        if len(given) > 1:
            first, second = (f"--{name.replace('_', '-')}" for name in given[:2])
            raise CommandError(f"{first} and {second} can't be given together.")

    def require_from(self, least: int, option: str) -> None:
        """Raise CommandError if this option is given, and is no number from ``least`` to ``LARGEST``."""
        number = self.options[option]
        if number is not None and not is_integer(number, least):
            raise CommandError(f"--{option.replace('_', '-')} must be from {least} to {LARGEST}, not {number}.")

    @property
    def for_people(self) -> OutputWrapper:
        """The stream for lines that people read: stderr with ``--json``, since stdout then has only JSON."""
        return self.stderr if self.options["json"] else self.stdout

    def confirm(self, question: str, *, to: str, refused: str) -> bool:
        """Ask on the terminal before doing ``to``. Return whether the answer is yes. Ctrl-C raises ``refused``."""
        require_terminal(to)
        try:
            print_line(f"{question} [y/N] ", self.for_people, ending="")
            self.for_people.flush()
            if self.for_people.failure is not None:
                raise CommandError(f"The question can't be shown. {refused}", returncode=UNWRITTEN)
            answer = sys.stdin.readline()
        except KeyboardInterrupt:
            print_line("", self.for_people)
            raise CommandError(refused, returncode=STOPPED) from None
        if not answer:
            print_line("", self.for_people)
        return answer.strip().lower() in ("y", "yes")


class _Help(DjangoHelpFormatter):
    def _fill_text(self, text: str, width: int, indent: str) -> str:
        # The examples have several lines. The description has one, and is wrapped.
        return text if "\n" in text else super()._fill_text(text, width, indent)


BY_KEY = "pk="
"""Before a primary key: only the user with this key is meant."""

USER_HELP = "by user name, e-mail address or primary key; pk=7 is the key 7 only"


def find_user(name: str) -> AbstractBaseUser | None:
    """
    Return the user whose user name, natural key, e-mail address or primary key is exactly ``name``, or None.

    After ``pk=``, it is a primary key. Users whom the model's default manager hides are found, too: they may be signed
    in. Raises CommandError if ``name`` means several users. The message has their primary keys.
    """
    key = user_key(name.removeprefix(BY_KEY))
    keyed = {} if key is None else users_by_id({name.removeprefix(BY_KEY)})
    if name.startswith(BY_KEY):
        return next(iter(keyed.values()), None)
    # "007" is a user name, and not the primary key 7.
    found = {user_id: user for user_id, user in keyed.items() if user_id == name}
    # Many may have no e-mail address.
    found |= {user_id_of(user): user for user in (_with_field(name) if name else ())}
    if len(found) > 1:
        each = " or ".join(
            f"{BY_KEY}{printable(user_id)} ({printable(str(user.get_username()))})" for user_id, user in found.items()
        )
        raise CommandError(f"{printable(name)} is more than one user: give {each}.")
    return next(iter(found.values()), None)


def _with_field(name: str) -> Iterator[AbstractBaseUser]:
    model: Any = get_user_model()
    by_natural_key = getattr(model._default_manager, "get_by_natural_key", None)
    # A key of several fields takes several arguments. The fields may be a number or a UUID: other text raises.
    with suppress(model.DoesNotExist, model.MultipleObjectsReturned, TypeError, ValidationError, ValueError):
        if by_natural_key is not None:
            yield by_natural_key(name)
    named = {model.USERNAME_FIELD, getattr(model, "get_email_field_name", str)()}
    for field in named & {field.name for field in model._meta.concrete_fields}:
        with suppress(ValidationError, ValueError):
            yield from model._base_manager.filter(**{field: name}).order_by("pk")[:MEANT_MAX]


ALIKE_MAX = 1000
"""The most user names with the same first letters that an unknown name is compared with."""


def unknown_users_text(names: Sequence[str], or_what: str = "") -> str:
    """Return a sentence that no users have these ``names``. For a single name, it suggests the most similar one."""
    named = ", ".join(printable(name) or "''" for name in names)
    text = f"There is no user{or_what} {named}."
    if len(names) == 1 and (alike := _alike(names[0])):
        return f"{text} Did you mean {printable(alike)}?"
    return text


def _alike(name: str) -> str:
    model: Any = get_user_model()
    field = model.USERNAME_FIELD
    with suppress(FieldError, ValidationError, ValueError):
        beginning = model._base_manager.filter(**{f"{field}__istartswith": name[:2]})
        known = map(str, beginning.order_by("pk").values_list(field, flat=True)[:ALIKE_MAX])
        return next(iter(get_close_matches(name, known, n=1, cutoff=0.75)), "")
    return ""


MEANT_MAX = 10
"""The most users that are listed for an ambiguous name."""


def owner_name(session: Session, users: Mapping[str, AbstractBaseUser]) -> str:
    """Return the name of the session's user, for display. ``users`` maps ids to the users that exist."""
    if session.user_id in users:
        return printable(str(users[session.user_id].get_username()))
    if session.user_id:
        return printable(f"deleted user {session.user_id}")
    # A session with a login time has a user. If its record can't be read, that user is unknown.
    return "guest" if session.created_at is None else "unknown"


def add_message_options(parser: CommandParser, shown: str) -> None:
    """Add the options of a message to users. ``shown`` says where it is shown."""
    parser.add_argument(
        "--message", default="", metavar="TEXT", help=f"shown to the users {shown}, at most {MESSAGE_MAX} characters"
    )
    code_help = "a ready-made message, in each user's language: a key of END_MESSAGES. --message is shown behind it"
    parser.add_argument("--message-code", default="", metavar="CODE", help=code_help)


def message_of(options: Mapping[str, Any]) -> str:
    """Return the message that the options of a command name. Raises CommandError for a wrong one."""
    code, words = options["message_code"], clean_text(options["message"])
    try:
        if code and code not in conf.END_MESSAGES:
            raise CommandError(f"--message-code: {code!r} is not in END_MESSAGES: {', '.join(conf.END_MESSAGES)}.")
        return ready_message(code, words) if code else check_message(words)
    except ValueError as error:
        raise CommandError(f"--message: {error}") from error


SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_seconds(time: str, option: str) -> float:
    """Return the seconds of a time such as ``5m``. The CommandError for other text names ``option``."""
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd])", time)
    if match is None or not float(match[1]):
        raise CommandError(f"{option} must be a time such as 90s, 5m, 1h or 1d, not {printable(time)}.")
    return float(match[1]) * SECONDS[match[2]]


@contextmanager
def command_errors() -> Iterator[None]:
    """
    Turn the errors of the store, of its settings and of the database into CommandError, which prints one line.

    Ctrl-C becomes a CommandError, too, unless the command handles it.
    """
    try:
        yield
    except SessionStoreUnavailable as error:
        raise CommandError(outage_text(error)) from error
    except ImproperlyConfigured as error:
        raise CommandError(str(error)) from error
    except KeyboardInterrupt:
        raise CommandError("Stopped.", returncode=STOPPED) from None
    except ResponseError as error:
        raise CommandError(f"The server refuses: {error}") from error
    except DatabaseError as error:
        failed = str(error).strip().partition("\n")[0]
        raise CommandError(f"The database fails: {failed}. If a table is missing, run 'manage.py migrate'.") from error


def outage_text(error: SessionStoreUnavailable) -> str:
    """Describe an outage, and name the setting to change. An outage without a known cause has no such setting."""
    if not error.cause:
        return str(error)
    wait = error.setting.removeprefix("None: ")
    advice = f"What to change: {error.setting}" if wait == error.setting else f"{wait[:1].upper()}{wait[1:]}"
    return f"{error.cause.rstrip('.')}. {advice}"


LINE_SECONDS = 5
"""The time between two progress lines, where there is no bar. With ``--forever``, it is a minute."""

STOPPED = 130
"""The exit status of a command that Ctrl-C has stopped, as in shells."""


def print_line(line: str, out: OutputWrapper, *, ending: str = "\n") -> None:
    """Print a line for a person."""
    out.write(line, style_func=str, ending=ending)


def csv_line(cells: Iterable[str]) -> str:
    """Return a row of a CSV file, without the end of the line."""
    text = StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()


def require_terminal(to: str) -> None:
    """Raise CommandError if there is no terminal to ask on. ``to`` is what the command is about to do."""
    if not is_terminal(sys.stdin):
        raise CommandError(f"There is no terminal to ask on: give --noinput to {to} without asking.")


class StopRequest:
    """
    A request to stop after the batch under way, by SIGTERM or Ctrl-C. A second signal kills the command.

    ``asked`` tells whether a signal has come.
    """

    def __init__(self) -> None:
        self.asked = False
        self._receiver, self._sender = socket.socketpair()

    def fileno(self) -> int:
        """Return a file descriptor that can be read as soon as the command is asked to stop."""
        return self._receiver.fileno()

    def wait_for_stop(self, seconds: float) -> None:
        """Return after ``seconds``, or as soon as the command is asked to stop."""
        self._receiver.settimeout(max(seconds, 0.001))
        with suppress(TimeoutError):
            self._receiver.recv(1, socket.MSG_PEEK)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals within this block."""
        # Only the main thread can handle signals. Elsewhere, the code that started the thread has to end the command.
        before = {}
        if threading.current_thread() is threading.main_thread():
            before = {number: signal.signal(number, self._request_stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self._receiver.close()
            self._sender.close()

    def _request_stop(self, number: int, frame: object) -> None:
        self.asked = True
        self._sender.send(b".")
        signal.signal(number, signal.SIG_DFL)


def progress_bar(total: int | None, *, wanted: bool) -> AbstractContextManager[Any]:
    """Show a bar on stderr up to ``total``, if it is known. The context is None if not ``wanted``, or without tqdm."""
    with suppress(ImportError):
        if wanted:
            from tqdm import tqdm

            return tqdm(total=total, unit="", leave=False, dynamic_ncols=True)
    return nullcontext()
