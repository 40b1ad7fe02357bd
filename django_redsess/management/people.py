"""Finding users by name, showing their names, and showing errors in one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.core.management.base import CommandError
from redis.exceptions import ResponseError

from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.online.presentation import printable

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

    from django_redsess.online import Session


def user_named(name: str) -> AbstractBaseUser | None:
    """Return the user with exactly this user name, or None. Raises CommandError if several users have it."""
    users = get_user_model()
    try:
        user: AbstractBaseUser = users._default_manager.get_by_natural_key(name)
    # The user name field may be a number or an e-mail address. Other text raises ValueError or ValidationError.
    except (users.DoesNotExist, ValidationError, ValueError):
        return None
    except users.MultipleObjectsReturned as error:
        raise CommandError(f"More than one user is named {printable(name)}.") from error
    return user


def owner_of(session: Session, users: Mapping[str, AbstractBaseUser]) -> str:
    """Return the name of the session's user, for display. ``users`` maps ids to the users that exist."""
    if session.user_id in users:
        return printable(str(users[session.user_id].get_username()))
    if session.user_id:
        return printable(f"deleted user {session.user_id}")
    # A session with a login time has a user. If its record can't be read, that user is unknown.
    return "guest" if session.login_at is None else "unknown"


@contextmanager
def command_errors() -> Iterator[None]:
    """Turn the errors of the store and of its settings into CommandError, which prints one line."""
    try:
        yield
    except (SessionStoreUnavailable, ImproperlyConfigured) as error:
        raise CommandError(str(error)) from error
    except ResponseError as error:
        raise CommandError(f"The server refuses: {error}") from error
