"""What values each setting of ``REDSESS`` allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.utils.functional import Promise

from django_redsess.session import limits, notice
from django_redsess.transport.keys import PREFIX_WORDS, is_prefix


class Rule(NamedTuple):
    """What values a setting allows: ``allows`` tests a value, ``words`` describe the rule in an error."""

    allows: Any
    words: str


def _is_int_from(least: int, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_path(value: object) -> bool:
    """Tell whether ``value`` may be the dotted path of a function."""
    return isinstance(value, str) and "." in value


TRUE_OR_FALSE = Rule(lambda value: isinstance(value, bool), "True or False")
AT_LEAST_ONE = Rule(lambda value: _is_int_from(1, value), "an integer of 1 or more")
AT_LEAST_ONE_OR_NONE = Rule(lambda value: value is None or _is_int_from(1, value), "an integer of 1 or more, or None")
SECONDS_OR_NONE = Rule(
    lambda value: value is None or _is_int_from(1, value), "a number of seconds, an integer of 1 or more, or None"
)


def _is_confirmation(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(_is_int_from(1, each) for each in value)


def _are_messages(value: object) -> bool:
    if not isinstance(value, list | tuple) or not all(isinstance(text, str | Promise) for text in value):
        return False
    return all(0 < len(notice.clean(str(text))) <= notice.TEXT_MAX for text in value)


MAXIMA = ("MAX_SESSIONS", "MAX_GUESTS")

RULES = {
    "PREFIX": Rule(
        lambda value: callable(value) or is_prefix(value), f"{PREFIX_WORDS}; or a function that returns such a text"
    ),
    "MAX_SESSIONS": AT_LEAST_ONE,
    "MAX_GUESTS": AT_LEAST_ONE_OR_NONE,
    "USER_SESSIONS_CEILING": AT_LEAST_ONE_OR_NONE,
    "MAX_SESSIONS_PER_USER": Rule(
        lambda value: limits.is_maximum(value) or is_path(value),
        "an integer of 1 or more, None, or the dotted path of a function, such as 'shop.people.sessions_of'",
    ),
    "SESSION_LIMIT_POLICY": Rule(
        lambda value: value in limits.POLICIES, "one of 'end_oldest', 'end_least_recent' and 'refuse'"
    ),
    "END_MESSAGES": Rule(_are_messages, f"a list or tuple of texts, each of 1 to {notice.TEXT_MAX} characters"),
    "END_ON_DEACTIVATION": TRUE_OR_FALSE,
    "END_ON_DELETION": TRUE_OR_FALSE,
    "END_ON_PASSWORD_CHANGE": TRUE_OR_FALSE,
    "CONFIRM_ENDS": Rule(
        lambda value: value is None or _is_confirmation(value),
        "None, or two integers of 1 or more, how many replicas and how long, such as (1, 200)",
    ),
    "TOUCH_INTERVAL": Rule(lambda value: _is_int_from(0, value), "a number of seconds: an integer of 0 or more"),
    "PARTITIONS": Rule(
        lambda value: _is_int_from(1, value) and value <= 1024 and value.bit_count() == 1,
        "a power of two from 1 to 1024",
    ),
    "IDLE_TIMEOUT": SECONDS_OR_NONE,
    "ABSOLUTE_TIMEOUT": SECONDS_OR_NONE,
    "SLIDING": TRUE_OR_FALSE,
    "PASSIVE_PATHS": Rule(
        lambda value: (
            isinstance(value, list | tuple) and all(isinstance(path, str) and path.startswith("/") for path in value)
        ),
        "a list or tuple of paths, each a string that begins with '/'",
    ),
    "PASSIVE_HEADER": Rule(
        lambda value: isinstance(value, str) and bool(value), "the name of a header, a string that is not empty"
    ),
    "TRUSTED_PROXIES": Rule(lambda value: _is_int_from(0, value), "an integer of 0 or more"),
    "CLIENT_ADDRESS": Rule(
        lambda value: value in ("full", "truncated", "none"), "one of 'full', 'truncated' and 'none'"
    ),
    "INDEX_ADDRESSES": TRUE_OR_FALSE,
    "HIDDEN_VALUES": Rule(
        lambda value: isinstance(value, list | tuple) and all(isinstance(key, str) for key in value),
        "a list or tuple of keys of sessions, each a string",
    ),
    "VIEWED_VIEWS": Rule(
        lambda value: (
            isinstance(value, Mapping) and all(isinstance(part, str) for item in value.items() for part in item)
        ),
        "a dict of strings, view name to URL keyword, such as {'shop:product': 'slug'}",
    ),
    "VIEWED_GUESTS": TRUE_OR_FALSE,
    "VIEWED_RESOLVE": Rule(
        lambda value: value is None or is_path(value),
        "None, or the dotted path of a function, such as 'shop.models.products_by_slug'",
    ),
    "VIEWED_PER_SESSION": AT_LEAST_ONE,
    "VIEWED_LIMIT": AT_LEAST_ONE,
}
