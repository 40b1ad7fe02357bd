"""What commands have in common that deal with people: users by name, what is shown and asked, and errors."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.core.management.base import CommandError, OutputWrapper
from redis.exceptions import ResponseError

from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.online.presentation import printable

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

    from django_redsess.online import Session

STOPPED = 130
"""The exit status of what Ctrl-C has stopped, as a shell has it."""


def user_named(name: str) -> AbstractBaseUser | None:
    """Return the user whose user name this is, exactly, or None. Raises CommandError where it is more than one's."""
    users = get_user_model()
    try:
        found: AbstractBaseUser = users._default_manager.get_by_natural_key(name)
    # What names users may be no text: a number, as text that is none, names nobody.
    except (users.DoesNotExist, ValidationError, ValueError):
        return None
    except users.MultipleObjectsReturned as error:
        raise CommandError(f"More than one user is named {printable(name)}.") from error
    return found


def owner_of(session: Session, users: Mapping[str, AbstractBaseUser]) -> str:
    """Say whose session it is, to a person; ``users`` are those that there are, by primary key as text."""
    if session.user_id in users:
        return printable(str(users[session.user_id].get_username()))
    if session.user_id:
        return printable(f"deleted user {session.user_id}")
    # Somebody is signed in, but the record that says who can't be read.
    return "guest" if session.login_at is None else "unknown"


def say(line: str, out: OutputWrapper, *, ending: str = "\n") -> None:
    """Print a line for a person."""
    # Names may be in any script, and not every terminal has all of them.
    encoding = getattr(out, "encoding", None) or "utf-8"
    out.write(line.encode(encoding, "backslashreplace").decode(encoding), style_func=str, ending=ending)


def need_terminal(to: str) -> None:
    """Raise CommandError where nobody can be asked."""
    if not sys.stdin.isatty():
        raise CommandError(f"Without a terminal nobody can be asked: give --noinput, to {to} without asking.")


def agreed(question: str, out: OutputWrapper, *, refused: str) -> bool:
    """Ask on the terminal, and tell whether the answer was yes. Ctrl-C is a CommandError that says ``refused``."""
    try:
        say(f"{question} [y/N] ", out, ending="")
        out.flush()
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        say("", out)
        raise CommandError(refused, returncode=STOPPED) from None
    if not answer:
        say("", out)
    return answer.strip().lower() in ("y", "yes")


@contextmanager
def told_as_errors() -> Iterator[None]:
    """Make one line for a person of what the store, or its settings, may raise."""
    try:
        yield
    except (SessionStoreUnavailable, ImproperlyConfigured) as error:
        raise CommandError(str(error)) from error
    except ResponseError as error:
        raise CommandError(f"The server refuses: {error}") from error
