"""The sender of a request: address and user agent."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import ip_address, ip_network

from django.http import HttpRequest

from django_redsess.conf import conf
from django_redsess.session.record import Client

USER_AGENT_BYTES_MAX = 256
USER_AGENT_KEPT_MAX = 1024
"""The most characters of a user agent whose cleaned text is cached. A longer one is cleaned each time."""

TEXT_MAX = 100
"""The most characters that are read as an address. No real address is so long, even with its zone."""


def client_of(request: HttpRequest) -> Client:
    """Return the sender of ``request``, without characters that could forge a log line or break a page."""
    user_agent: str = request.META.get("HTTP_USER_AGENT", "")
    clean = _cleaned if len(user_agent) <= USER_AGENT_KEPT_MAX else _cleaned.__wrapped__
    return Client(_address_of(request), clean(user_agent))


# Cached, because the same browsers come again and again.
@lru_cache(maxsize=1024)
def _cleaned(user_agent: str) -> str:
    # A surrogate stands for a byte that is not UTF-8. It can't be stored.
    text = re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", "", user_agent)
    return text.encode()[:USER_AGENT_BYTES_MAX].decode(errors="ignore")


def _address_of(request: HttpRequest) -> str:
    if conf.CLIENT_ADDRESS == "none":
        return ""
    text = request.META.get("REMOTE_ADDR", "")
    if conf.TRUSTED_PROXIES:
        # Each proxy appends the address of its client. Entries to the left of your own proxies' may be forged.
        heard = request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")
        text = heard[-conf.TRUSTED_PROXIES].strip() if len(heard) >= conf.TRUSTED_PROXIES else ""
        if with_port := re.fullmatch(r"\[(.+)\]:\d+|([\d.]+):\d+", text):
            text = with_port[1] or with_port[2]
    return _canonical(text, conf.CLIENT_ADDRESS) if len(text) <= TEXT_MAX else ""


@lru_cache(maxsize=1024)
def _canonical(text: str, how_much: str) -> str:
    # Cached, because the same visitors come again and again, and Python reads an address slowly.
    try:
        # The zone of a link-local address is left out. It may be any text.
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return ""
    if address.version == 6 and address.ipv4_mapped:
        address = address.ipv4_mapped
    if how_much == "truncated":
        return str(ip_network((address, 24 if address.version == 4 else 48), strict=False).network_address)
    return str(address)
