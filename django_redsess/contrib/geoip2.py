"""A function for ``REDSESS["PLACES"]``. It needs the extra ``places``. Public."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from ipaddress import ip_address
from typing import Any

from django.conf import settings
from django.contrib.gis.geoip2 import GeoIP2
from geoip2.errors import AddressNotFoundError

__all__ = ["places"]


def places(addresses: Sequence[str]) -> dict[str, str]:
    """
    Return the places of ``addresses``, such as "Lyon, France", by Django's ``GeoIP2``: a dict of address to text.

    ``GEOIP_PATH`` names the database, or its folder. With a database of countries, a place is a country. Names are
    English. An address is left out if the database does not know it, or if it is private. Raises ``GeoIP2Exception`` if
    there is no database.
    """
    database = _database(getattr(settings, "GEOIP_PATH", None))
    places_of = {}
    for address in addresses:
        # GeoIP2 would look up any other text in the DNS.
        with suppress(ValueError, AddressNotFoundError):
            if ip_address(address).is_global:
                found: Any = database.city(address) if database.is_city else database.country(address)
                places_of[address] = ", ".join(filter(None, (found.get("city"), found["country_name"])))
    return places_of


@lru_cache(maxsize=1)
def _database(path: Any) -> GeoIP2:
    # Opening it takes milliseconds. It is kept until the process ends.
    return GeoIP2(path)
