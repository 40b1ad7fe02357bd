"""The two stores of this engine between which sessions move: the one before and the next one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from django_redsess.conf import conf
from django_redsess.transport.keys import Store


@dataclass(frozen=True, slots=True)
class Stores:
    """The store ``before`` and the ``next`` one. None stands for that of the settings; ``other`` is the other one."""

    before: Store | None
    next: Store | None
    other: Store

    @property
    def in_order(self) -> tuple[Store | None, Store | None]:
        """Both: first the one from which sessions move."""
        return self.before, self.next


def stores() -> Stores:
    """
    Return both stores, as ``MOVE_TO`` or ``MOVE_FROM`` says.

    Raises ImproperlyConfigured if neither does, or both do.
    """
    target, origin = conf.MOVE_TO, conf.MOVE_FROM
    if target is not None and origin is not None:
        raise ImproperlyConfigured("REDSESS has MOVE_TO and MOVE_FROM. Leave one out: only step 1 has MOVE_TO.")
    if target is not None:
        other = _store(target)
        return Stores(None, other, other)
    if isinstance(origin, Mapping) and "SESSION_ENGINE" not in origin:
        other = _store(origin)
        return Stores(other, None, other)
    raise ImproperlyConfigured(
        "SESSION_ENGINE is django_redsess.contrib.moving.growing, and REDSESS names no other store of this engine. "
        "Describe the next one by MOVE_TO in step 1, and the one before by MOVE_FROM in step 2. From any other engine, "
        "sessions move with SESSION_ENGINE = 'django_redsess.contrib.moving'."
    )


def _store(named: Mapping[str, Any]) -> Store:
    # What is not named there is as here. PREFIX may be a function, so it is looked up each time.
    alias, prefix = named.get("SESSION_CACHE_ALIAS", settings.SESSION_CACHE_ALIAS), named.get("PREFIX", conf.PREFIX)
    return Store(alias, prefix, named.get("PARTITIONS", conf.PARTITIONS))
