"""Addresses and networks, and the number by which an index orders them."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from django_redsess.conf import conf

EXACT_BITS = 52
"""How many bits of an IPv6 address its place has. A sorted set's scores are whole up to 2^53."""

V6_PLACES = 1 << EXACT_BITS
"""IPv4 addresses have the places from 0, IPv6 addresses those from here."""


class Network(NamedTuple):
    """
    A network, or a single address.

    ``text`` is its usual form, such as ``198.51.100.0/24`` or ``2001:db8::7``. ``first`` and ``last`` are the lowest
    and the highest place of its addresses. ``is_exact`` tells whether no other address has one of these places.
    """

    text: str
    first: int
    last: int
    is_exact: bool

    def has(self, address: str) -> bool:
        """Tell whether ``address`` is in this network. False for a text that is no address."""
        parsed = _parsed(address)
        return parsed is not None and parsed in _network(self.text)


def place_of(address: bytes) -> int:
    """
    Return the place of an address of 4 or 16 bytes in the index of addresses.

    Addresses have the order of their numbers, so each network is a range. IPv6 addresses share a place if they have the
    same first 52 bits.
    """
    number = int.from_bytes(address, "big")
    return number if len(address) == 4 else V6_PLACES + (number >> 128 - EXACT_BITS)


def network_of(text: str) -> Network | None:
    """
    Return the network that ``text`` names: an address, or a network such as ``198.51.100.0/24``. None for other text.

    If the site stores only the network of an address (``CLIENT_ADDRESS``), an address stands for that network.
    """
    try:
        network = _network(text.strip().strip("[]"))
    except ValueError:
        return None
    if network.version == 6 and (mapped := network.network_address.ipv4_mapped) and network.prefixlen >= 96:
        network = IPv4Network((mapped, network.prefixlen - 96))
    if conf.CLIENT_ADDRESS == "truncated":
        network = network.supernet(new_prefix=min(network.prefixlen, 24 if network.version == 4 else 48))
    is_address = network.prefixlen == network.max_prefixlen
    is_exact = network.version == 4 or network.prefixlen <= EXACT_BITS
    shown = str(network[0]) if is_address else str(network)
    return Network(shown, place_of(network[0].packed), place_of(network[-1].packed), is_exact)


def named_network(text: str) -> Network:
    """Return the network that ``text`` names, as :func:`network_of` does. Raises ValueError if it names none."""
    network = network_of(text)
    if network is None:
        raise ValueError(f"{text!r} is neither an address nor a network, such as 198.51.100.7 or 198.51.100.0/24.")
    return network


@lru_cache(maxsize=1024)
def _parsed(address: str) -> IPv4Address | IPv6Address | None:
    # Cached, because the same visitors come again and again, and Python reads an address slowly.
    try:
        return ip_address(address)
    except ValueError:
        return None


@lru_cache(maxsize=64)
def _network(text: str) -> IPv4Network | IPv6Network:
    return ip_network(text, strict=False)
