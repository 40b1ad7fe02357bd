"""The sender of a request: its address, its user agent, its time zone, and the networks that an address belongs to."""

from __future__ import annotations

import re
from datetime import tzinfo
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from socket import AF_INET, AF_INET6, inet_ntop, inet_pton
from typing import NamedTuple
from zoneinfo import ZoneInfo

from django.http import HttpRequest
from django.utils import timezone

from django_redsess.conf import conf
from django_redsess.session.compression import deflated_agent, inflated_agent

ZONE_COOKIE = "redsess_time_zone"
"""The cookie with the name of the browser's time zone: ``Europe/Paris``. ``static/django_redsess/zone.js`` sets it."""

# No path, and none of the names in small letters: "localtime" is the server's, "right/…" counts leap seconds.
_ZONE_NAME = re.compile(r"[A-Z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}")
ZONE_NAME_MAX = 64


class Client(NamedTuple):
    """The sender of a request: its address and its ``User-Agent``. Each is ``""`` if unknown."""

    address: str = ""
    user_agent: str = ""


@lru_cache(maxsize=1024)
def pack_client(client: Client) -> bytes:
    """Pack ``client`` for :attr:`Record.client_packed`. Raises OSError for an invalid address."""
    address, user_agent = client
    if not (address or user_agent):
        return b""
    packed = inet_pton(AF_INET6 if ":" in address else AF_INET, address) if address else b""
    return deflated_agent(user_agent) + packed


def unpack_client(packed: bytes) -> Client:
    """
    Return the client that :func:`pack_client` has packed.

    Raises ValueError, OSError or zlib.error for bytes that it did not write.
    """
    if not packed:
        return Client()
    user_agent, rest = inflated_agent(packed)
    address = inet_ntop(AF_INET if len(rest) == 4 else AF_INET6, rest) if rest else ""
    return Client(address, user_agent)


EXACT_BITS = 52
"""How many bits of an IPv6 address its score has: a column of a database holds 63."""

V6_SCORES = 1 << EXACT_BITS
"""IPv4 addresses have the scores from 0, IPv6 addresses those from here."""


class Network(NamedTuple):
    """
    A network, or a single address.

    ``text`` is its usual form, such as ``198.51.100.0/24`` or ``2001:db8::7``. ``first`` and ``last`` are the lowest
    and the highest score of its addresses. ``is_exact`` tells whether no other address has one of these scores.
    """

    text: str
    first: int
    last: int
    is_exact: bool


def _score(address: bytes) -> int:
    """
    Return the score of an address of 4 or 16 bytes.

    Addresses have the order of their numbers, so each network is a range. IPv6 addresses share a score if they have the
    same first 52 bits.
    """
    number = int.from_bytes(address, "big")
    return number if len(address) == 4 else V6_SCORES + (number >> 128 - EXACT_BITS)


def address_score(address: str) -> int | None:
    """Return the score of an address in its text form. None for a text that is no address."""
    parsed = _parsed(address)
    return None if parsed is None else _score(parsed.packed)


def parse_network(text: str) -> Network | None:
    """
    Return the network that ``text`` names: an address, or a network such as ``198.51.100.0/24``. None for other text.

    The beginning of an address stands for all that begin with it: ``198.51.100``, ``10.`` or ``2001:db8:``. A number
    without a dot is none. If the site stores only the network of an address (``CLIENT_ADDRESS``), an address stands
    for that network.
    """
    address, slash, length = text.partition("/")
    try:
        if beginning := _beginning(address):
            network = _network(f"{beginning[0]}/{length.strip() if slash else beginning[1]}")
        else:
            network = _network(_bare(address) + slash + length.strip())
    except ValueError:
        return None
    if network.version == 6 and (mapped := network.network_address.ipv4_mapped) and network.prefixlen >= 96:
        network = IPv4Network((mapped, network.prefixlen - 96))
    if conf.CLIENT_ADDRESS == "truncated":
        network = network.supernet(new_prefix=min(network.prefixlen, 24 if network.version == 4 else 48))
    is_address = network.prefixlen == network.max_prefixlen
    is_exact = network.version == 4 or network.prefixlen <= EXACT_BITS
    shown = str(network[0]) if is_address else str(network)
    return Network(shown, _score(network[0].packed), _score(network[-1].packed), is_exact)


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


USER_AGENT_BYTES_MAX = 256
USER_AGENT_KEPT_MAX = 1024
"""The most characters of a user agent whose cleaned text is cached. A longer one is cleaned each time."""

TEXT_MAX = 100
"""The most characters that are read as an address. No real address is so long, even with its zone."""


def read_client(request: HttpRequest) -> Client:
    """Return the sender of ``request``, as :func:`clean_client` does."""
    text = request.META.get("REMOTE_ADDR")
    if conf.TRUSTED_PROXY_COUNT:
        # Each proxy appends the address of its client. Entries to the left of your own proxies' may be forged.
        heard = request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")
        text = heard[-conf.TRUSTED_PROXY_COUNT].strip() if len(heard) >= conf.TRUSTED_PROXY_COUNT else ""
    return clean_client(text, request.META.get("HTTP_USER_AGENT", ""))


def clean_client(address: object, user_agent: str) -> Client:
    """
    Return a sender without characters that could forge a log line or break a page.

    The address is as ``CLIENT_ADDRESS`` says; ``""`` for a text that is none. On a Unix socket, some servers have
    something else than a text.
    """
    clean = _cleaned if len(user_agent) <= USER_AGENT_KEPT_MAX else _cleaned.__wrapped__
    is_kept = conf.CLIENT_ADDRESS != "none" and isinstance(address, str) and len(address) <= TEXT_MAX
    return Client(_canonical(str(address), conf.CLIENT_ADDRESS) if is_kept else "", clean(user_agent))


# They turn text around, or are not seen.
_UNSEEN = r"\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"


# Cached, because the same browsers come again and again.
@lru_cache(maxsize=1024)
def _cleaned(user_agent: str) -> str:
    # A surrogate stands for a byte that is not UTF-8. It can't be stored.
    text = re.sub(rf"[\x00-\x1f\x7f-\x9f\ud800-\udfff{_UNSEEN}]", "", user_agent)
    return text.encode()[:USER_AGENT_BYTES_MAX].decode(errors="ignore")


_DRESSED = re.compile(r"\[([^\[\]]+)\](?::[0-9]{1,5})?|((?:::ffff:)?[0-9.]+):[0-9]{1,5}", re.IGNORECASE)


def _bare(text: str) -> str:
    """
    Return an address without what servers and proxies write around it: quotation marks, brackets, a port.

    The zone of a link-local address is left out, too: it may be any text. An IPv6 address without brackets has no port.
    """
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1]
    found = _DRESSED.fullmatch(text)
    return (found[1] or found[2] if found else text).partition("%")[0]


# A number without a dot may be a name. So may a text whose first group is that of no real address.
_BEGINNING = re.compile(
    r"(?P<numbers>[0-9]{1,3}\.(?:[0-9]{1,3}\.){0,2})\*?|(?P<last>[0-9]{1,3}(?:\.[0-9]{1,3}){1,2})"
    r"|(?P<groups>[0-9a-f]{4}:(?:[0-9a-f]{1,4}:){0,6})\*?|(?P<final>[0-9a-f]{4}(?::[0-9a-f]{1,4}){1,6})",
    re.ASCII | re.IGNORECASE,
)


def _beginning(text: str) -> tuple[str, str] | None:
    """Return the first address that begins with ``text``, and the length of what they share. None for other text."""
    found = _BEGINNING.fullmatch(text.strip())
    if found is None:
        return None
    if numbers := found["numbers"] or found["last"]:
        parts = numbers.rstrip(".").split(".")
        return ".".join(parts + ["0"] * (4 - len(parts))), str(8 * len(parts))
    groups = (found["groups"] or found["final"]).rstrip(":").split(":")
    return ":".join(groups) + "::", str(16 * len(groups))


@lru_cache(maxsize=1024)
def _canonical(text: str, how_much: str) -> str:
    # Cached, because the same visitors come again and again, and Python reads an address slowly.
    try:
        address = ip_address(_bare(text))
    except ValueError:
        return ""
    if address.version == 6 and address.ipv4_mapped:
        address = address.ipv4_mapped
    if how_much == "truncated":
        return str(ip_network((address, 24 if address.version == 4 else 48), strict=False).network_address)
    return str(address)


def is_zone_of_site() -> bool:
    """Tell whether times are shown in ``TIME_ZONE``: the site has activated no other time zone."""
    return str(timezone.get_current_timezone()) == str(timezone.get_default_timezone())


def zone_of_browser(request: HttpRequest) -> tzinfo | None:
    """Return the time zone that the browser of ``request`` has named, or None if there is none of that name."""
    name = request.COOKIES.get(ZONE_COOKIE, "")
    if len(name) > ZONE_NAME_MAX or not _ZONE_NAME.fullmatch(name):
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # No such zone, a file that is none, or a folder.
        return None
