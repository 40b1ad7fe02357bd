"""Several networks as one: sets of them, files that list them, and the lists that the setting ``NETWORKS`` names."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import ip_address, ip_network
from itertools import chain
from pathlib import Path
from stat import S_ISREG

from django_redsess.conf import conf
from django_redsess.session.client import parse_network

Networks = tuple[str, ...]
"""Networks and addresses in their usual form: ``("198.51.100.0/24", "2001:db8::7")``."""

FROM_FILE = "@"
"""Before the name of a file that lists networks, as an argument of a command."""

LINES_MAX = 100_000
"""The most lines of a file that lists networks. That many take seconds to read, in each process."""

Stamp = tuple[int, int, int]
"""Tells versions of a file apart."""


class NetworkListError(ValueError):
    """A list of networks can't be read, or has a line that is no network."""


class NetworkSet:
    """The addresses of ``networks``. Looking up an address takes as long for thousands of networks as for a few."""

    def __init__(self, networks: Iterable[str]) -> None:
        # By the length of an address in bytes: the first and the last addresses of ranges, as numbers in order.
        self._ranges: dict[int, tuple[list[int], list[int]]] = {}
        for length, first, last in sorted(map(_range_of, networks)):
            firsts, lasts = self._ranges.setdefault(length, ([], []))
            if lasts and first <= lasts[-1] + 1:
                lasts[-1] = max(lasts[-1], last)
            else:
                firsts.append(first)
                lasts.append(last)
        self.lengths = tuple(self._ranges)
        """How many bytes the addresses of the set have: 4, 16, or both."""

    def has(self, address: str) -> bool:
        """Tell whether ``address`` is in one of the networks. False for a text that is no address."""
        try:
            return self.has_packed(ip_address(address).packed)
        except ValueError:
            return False

    def has_packed(self, address: bytes) -> bool:
        """Tell whether the address with these bytes is in one of the networks."""
        number = int.from_bytes(address, "big")
        return self._has_range(len(address), number, number)

    def has_network(self, network: str) -> bool:
        """Tell whether all addresses of ``network`` are in the set."""
        return self._has_range(*_range_of(network))

    def _has_range(self, length: int, first: int, last: int) -> bool:
        firsts, lasts = self._ranges.get(length, ((), ()))
        at = bisect_right(firsts, first) - 1
        return at >= 0 and last <= lasts[at]


def _range_of(network: str) -> tuple[int, int, int]:
    """Return the length of its addresses in bytes, and the first and the last one as numbers."""
    parsed = ip_network(network)
    return parsed.max_prefixlen // 8, int(parsed[0]), int(parsed[-1])


@lru_cache(maxsize=16)
def network_set(networks: Networks) -> NetworkSet:
    """Return the addresses of ``networks`` as a set."""
    return NetworkSet(networks)


def common_networks(some: Networks, others: Networks) -> Networks:
    """Return the networks whose addresses are in both. ``()`` if there are none."""
    # Of two networks, either one is in the other, or they have no address in common.
    of_some, of_others = network_set(some), network_set(others)
    return tuple(dict.fromkeys([*filter(of_others.has_network, some), *filter(of_some.has_network, others)]))


def require_networks(named: str | Sequence[str]) -> Networks:
    """
    Return the networks that ``named`` names: one, or several.

    Each is an address, a network, the beginning of an address, or the name of a list in ``NETWORKS``. Raises ValueError
    for any other text, and :class:`NetworkListError` for a list that can't be used.
    """
    texts = [named] if isinstance(named, str) else named
    return tuple(dict.fromkeys(chain.from_iterable(map(_networks_of, texts))))


def _networks_of(text: str) -> Networks:
    if found := parse_network(text):
        return (found.text,)
    if text in conf.NETWORKS:
        return read_list(text)
    raise ValueError(f"{text!r} is neither an address nor a network, such as 198.51.100.7 or 198.51.100.0/24.")


def read_list(name: str) -> Networks:
    """Return the networks of the list ``name`` in ``NETWORKS``. A file that has changed is read anew."""
    path = Path(conf.NETWORKS[name])
    try:
        found = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from error
    if not S_ISREG(found.st_mode):
        # A pipe or a device may never end.
        raise NetworkListError(f"{path} is not a regular file.")
    return _read_version(path, (found.st_mtime_ns, found.st_size, found.st_ino), conf.CLIENT_ADDRESS)


@lru_cache(maxsize=16)
def _read_version(path: Path, version: Stamp, how_much: str) -> Networks:
    return read_networks(path)


def read_networks(path: str | os.PathLike[str]) -> Networks:
    """
    Return the networks of a file with one network or address a line. ``#`` begins a comment.

    Raises :class:`NetworkListError`, which names the file and the line.
    """
    networks = dict[str, None]()
    try:
        with open(path, encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                if number > LINES_MAX:
                    raise NetworkListError(f"{path} has more than {LINES_MAX:,} lines. Join neighbouring networks.")
                text = line.partition("#")[0].strip()
                if not text:
                    continue
                if (network := parse_network(text)) is None:
                    shown = ascii(text[:60])
                    raise NetworkListError(f"{path}, line {number}: {shown} is neither an address nor a network.")
                networks[network.text] = None
    except UnicodeDecodeError as error:
        raise NetworkListError(f"{path} is not a text in UTF-8.") from error
    except OSError as error:
        raise _unreadable(path, error) from error
    return tuple(networks)


def _unreadable(path: str | os.PathLike[str], error: OSError) -> NetworkListError:
    return NetworkListError(f"{path} can't be read: {error.strerror or error}.")
