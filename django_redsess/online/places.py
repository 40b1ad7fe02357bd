"""The places of addresses as text: results of the function in the setting ``PLACES``, kept for an hour."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from django.utils.functional import Promise
from django.utils.module_loading import import_string
from django.utils.translation import get_language

from django_redsess import forks
from django_redsess.clock import monotonic
from django_redsess.conf import conf
from django_redsess.user_messages import clean_text

KEPT_SECONDS = 3600
KEPT_MAX = 10_000
"""So many addresses are kept, in this process only: they are personal data."""

PLACE_MAX = 100
"""The most characters of a place."""

logger = logging.getLogger("django_redsess")


class KeptPlace(NamedTuple):
    """A result of the function: ``""`` for no place. ``until`` is a time of the monotonic clock."""

    place: str
    until: float


EXPIRED = KeptPlace("", float("-inf"))

# By the function's path, the language, and the address.
_kept: OrderedDict[tuple[str, str | None, str], KeptPlace] = OrderedDict()
_keeping = forks.Lock()
_failing = set[str]()


def find_places(addresses: Iterable[str]) -> dict[str, str]:
    """
    Return the places of ``addresses``, as a dict of address to text. An address without a place is left out.

    The function is called once, with the addresses that are not kept. Call this once a page. If the function fails,
    these addresses are left out, and the failure is logged once until it works again. Without the setting, the dict is
    empty.
    """
    path, language = conf.PLACES, get_language()
    if path is None:
        return {}
    wanted, now = {address for address in addresses if address}, monotonic()
    with _keeping:
        found = {address: _kept.get((path, language, address), EXPIRED) for address in wanted}
    known = {address: kept.place for address, kept in found.items() if kept.until > now}
    if unknown := sorted(wanted - known.keys()):
        asked = _ask_site(path, unknown)
        known |= asked
        with _keeping:
            for address, place in asked.items():
                _kept[path, language, address] = KeptPlace(place, now + KEPT_SECONDS)
                _kept.move_to_end((path, language, address))
            while len(_kept) > KEPT_MAX:
                _kept.popitem(last=False)
    return {address: place for address, place in known.items() if place}


def _ask_site(path: str, addresses: list[str]) -> dict[str, str]:
    try:
        found = import_string(path)(addresses)
        places = {address: _place_text(found.get(address)) for address in addresses}
    except Exception:  # The site's own function may raise anything.
        if path not in _failing:
            logger.exception("No places are shown: %s, the function that REDSESS['PLACES'] names, failed.", path)
        _failing.add(path)
        return {}
    _failing.discard(path)
    return places


def _place_text(place: object) -> str:
    return clean_text(str(place))[:PLACE_MAX] if isinstance(place, str | Promise) else ""
