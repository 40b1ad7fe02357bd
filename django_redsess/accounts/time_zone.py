"""The time zone in which a user reads times: what the function of the setting ``USER_TIME_ZONE`` says."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from django.utils import timezone
from django.utils.module_loading import import_string

from django_redsess.conf import conf

logger = logging.getLogger("django_redsess")

_failing = set[str]()


@contextmanager
def in_zone_of(user: Any, *, is_page: bool = True) -> Iterator[None]:
    """
    Show times in the zone of ``user`` within. Where it is not known, they are in the site's ``TIME_ZONE``.

    On a page, a zone that the site's own code has activated wins: it may be that of the device. A mail has no part in
    what its request activated, which may be a stranger's.
    """
    default = timezone.get_default_timezone()
    if is_page and str(timezone.get_current_timezone()) != str(default):
        yield
        return
    with timezone.override(_zone_of(user) or default):
        yield


def _zone_of(user: Any) -> tzinfo | None:
    path = conf.USER_TIME_ZONE
    if path is None:
        return None
    try:
        found = import_string(path)(user)
        zone = ZoneInfo(found) if isinstance(found, str) else found
        if zone is not None:
            # Raises for whatever is no tzinfo, and for one that does not work.
            datetime.fromtimestamp(0, zone).isoformat()
    except Exception:  # The site's own function may raise anything.
        if path not in _failing:
            logger.exception(
                "Times are shown in TIME_ZONE: %s, the function that REDSESS['USER_TIME_ZONE'] names, failed.", path
            )
        _failing.add(path)
        return None
    _failing.discard(path)
    return zone
