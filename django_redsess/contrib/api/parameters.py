"""What a request to the JSON API asks: parameters of the query, and the JSON of the body."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent
from django.http import HttpRequest

from django_redsess.conf import MESSAGE_MAX
from django_redsess.contrib.api.problems import Problem, unprocessable
from django_redsess.session import notice

LIMIT, LIMIT_MAX = 50, 100

TEXT_MAX = 200
"""The most characters of a text that is searched for."""


class Parameters:
    """
    The query of ``request``, which may have the parameters ``names`` and ``several``: the second more than once.

    ``about`` says whose list it is, where the path does: a cursor is of this list only.

    Methods raise :class:`Problem` (422) for a value that they do not take. So does this for an unknown name.
    """

    def __init__(self, request: HttpRequest, *names: str, several: Collection[str] = (), about: str = "") -> None:
        self.about = about
        try:
            self._given = {name: [str(value) for value in values] for name, values in request.GET.lists()}
        except TooManyFieldsSent:
            raise Problem(422, "The query has too many parameters.") from None
        for name, values in self._given.items():
            if name not in (*names, *several):
                known = ", ".join(sorted((*names, *several))) or "none"
                raise Problem(422, f"There is no parameter {name[:TEXT_MAX]!r}. Parameters: {known}.")
            if len(values) > 1 and name not in several:
                raise Problem(422, f"{name} is given more than once.")
            if any("\0" in value for value in values):
                raise unprocessable(name, "without the character NUL")

    def text(self, name: str, longest: int = TEXT_MAX) -> str:
        """Return the text ``name`` without blanks around it, ``""`` if it is not given."""
        value = self._given.get(name, [""])[0]
        if len(value) > longest:
            raise unprocessable(name, f"at most {longest} characters")
        return value.strip()

    def texts(self, name: str, most: int) -> list[str]:
        """Return the texts of a parameter that may be given ``most`` times."""
        values = self._given.get(name, [])
        if len(values) > most or any(not value or len(value) > TEXT_MAX for value in values):
            raise unprocessable(name, f"given at most {most} times, with 1 to {TEXT_MAX} characters")
        return values

    def choice(self, name: str, choices: Collection[str]) -> str:
        """Return which of ``choices`` is given, ``""`` for none."""
        value = self._given.get(name, [""])[0]
        if name in self._given and value not in choices:
            raise unprocessable(name, "one of " + ", ".join(choices))
        return value

    def limit(self) -> int:
        """Return how many entries a page has."""
        value = self._given.get("limit", [str(LIMIT)])[0]
        # int() takes digits of other scripts, too, and blanks.
        if not (value.isascii() and value.isdecimal() and len(value) < 4 and 1 <= int(value) <= LIMIT_MAX):
            raise unprocessable("limit", f"a number from 1 to {LIMIT_MAX}")
        return int(value)

    def message(self) -> str:
        """Return what users of ended sessions are to read."""
        return message_of(self._given.get("message", [""])[0])

    @property
    def filters(self) -> dict[str, list[str]]:
        """What is given, apart from the place: a cursor is of these only."""
        return {name: values for name, values in sorted(self._given.items()) if name not in ("cursor", "limit")}


class Body:
    """The JSON object in the body of ``request``, which may have ``names`` only. Errors are as of ``Parameters``."""

    def __init__(self, request: HttpRequest, *names: str) -> None:
        if request.content_type != "application/json":
            raise Problem(415, "The body must be of the type application/json.")
        try:
            self._given = json.loads(request.body, parse_constant=_refuse)
        except RequestDataTooBig:
            raise Problem(413, "The body is too long.") from None
        # RecursionError: nested too deep. Digits without end are a ValueError.
        except (ValueError, RecursionError):
            raise Problem(422, "The body must be JSON.") from None
        if not isinstance(self._given, dict):
            raise Problem(422, "The body must be a JSON object.")
        for name in self._given.keys() - set(names):
            raise Problem(422, f"There is no field {name[:TEXT_MAX]!r}. Fields: {', '.join(sorted(names))}.")

    def text(self, name: str, default: str | None = None) -> str:
        """Return the text ``name``. None as ``default``: it must be given."""
        value = self._given.get(name, default)
        if not isinstance(value, str) or not _is_storable(value):
            raise unprocessable(name, "a text")
        return value

    def texts(self, name: str, most: int) -> list[str]:
        """Return the list of texts ``name``, which must be given."""
        values = self._given.get(name)
        is_list = isinstance(values, list) and 0 < len(values) <= most
        if not is_list or not all(isinstance(value, str) and _is_storable(value) for value in values):
            raise unprocessable(name, f"a list of 1 to {most} texts")
        return list(values)

    def message(self) -> str:
        return message_of(self.text("message", ""))

    def moment(self, name: str) -> datetime:
        """Return the time ``name``, which must be given: as RFC 3339 has it, with an offset."""
        value = self.text(name)
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = None
        # The first and last years may lie outside of what Python knows, in another time zone.
        if moment is None or moment.tzinfo is None or not 1970 < moment.year < 9999:
            raise unprocessable(name, "a time with its offset, such as 2031-04-01T12:00:00Z")
        return moment


def message_of(text: str) -> str:
    if len(text) > MESSAGE_MAX:
        raise unprocessable("message", f"at most {MESSAGE_MAX} characters")
    return notice.clean(text)


def _is_storable(text: str) -> bool:
    # JSON may have half a character, which no server stores; and PostgreSQL has no NUL.
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


Json = Mapping[str, Any]
"""What an answer says."""
