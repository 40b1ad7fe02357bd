"""System checks: a wrong setting is told at start, with a hint, and not by the first visitor's request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.conf import settings
from django.core import checks

from django_redsess.conf import Conf

SETTING_NAMES = sorted(name for name in vars(Conf) if name.isupper())


class Rule(NamedTuple):
    """What a setting must be: ``allows`` tells whether a value is that, ``words`` says it to a person."""

    allows: Any
    words: str


def _is_int_from(least: int, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


AT_LEAST_ONE = Rule(lambda value: _is_int_from(1, value), "an integer of 1 or more")

RULES = {
    "PREFIX": Rule(
        lambda value: isinstance(value, str) and bool(value) and not set(value) & set("{}"),
        "a text that is not empty and has no brace in it",
    ),
    "MAX_SESSIONS": AT_LEAST_ONE,
    "TOUCH_INTERVAL": Rule(lambda value: _is_int_from(0, value), "a number of seconds: an integer of 0 or more"),
    "VIEWED_VIEWS": Rule(
        lambda value: (
            isinstance(value, Mapping) and all(isinstance(part, str) for item in value.items() for part in item)
        ),
        "a dict of texts, view name to URL keyword, such as {'shop:product': 'slug'}",
    ),
    "VIEWED_PER_SESSION": AT_LEAST_ONE,
}


@checks.register(checks.Tags.security)
def check_settings(**kwargs: Any) -> list[checks.CheckMessage]:
    """Refuse unknown names and wrong types in ``settings.REDSESS``."""
    given = getattr(settings, "REDSESS", {})
    if not isinstance(given, Mapping):
        return [checks.Error("REDSESS must be a dict.", id="django_redsess.E001")]
    messages: list[checks.CheckMessage] = [
        checks.Error(
            f"REDSESS has no setting {name!r}.", hint=f"It knows {', '.join(SETTING_NAMES)}.", id="django_redsess.E002"
        )
        for name in given
        if name not in SETTING_NAMES
    ]
    messages += [
        checks.Error(
            f"REDSESS[{name!r}] must be {rule.words}; it is {given[name]!r}.",
            hint="Leave it out for its default.",
            id="django_redsess.E003",
        )
        for name, rule in RULES.items()
        if name in given and not rule.allows(given[name])
    ]
    return messages


@checks.register(checks.Tags.security)
def check_cache(**kwargs: Any) -> list[checks.CheckMessage]:
    """Refuse a ``SESSION_CACHE_ALIAS`` whose cache is not one of django-redis: sessions live on its connection."""
    if settings.SESSION_ENGINE != "django_redsess.backend":
        return []
    from django.core.cache import InvalidCacheBackendError, caches
    from django_redis.cache import RedisCache

    alias = settings.SESSION_CACHE_ALIAS
    try:
        usable = isinstance(caches[alias], RedisCache)
    except InvalidCacheBackendError:
        usable = False
    if usable:
        return []
    return [
        checks.Error(
            f"SESSION_CACHE_ALIAS names {alias!r}, which is no cache of django-redis.",
            hint=f"Set CACHES[{alias!r}]['BACKEND'] to 'django_redis.cache.RedisCache'.",
            id="django_redsess.E004",
        )
    ]
