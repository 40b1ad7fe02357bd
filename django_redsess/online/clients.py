"""What a search asks of the sender of a session's last request: network, browser and operating system."""

from __future__ import annotations

import zlib
from ipaddress import ip_network

from django_redsess.online import browsers
from django_redsess.online.queries import SessionFilter
from django_redsess.session.networks import named_network
from django_redsess.session.payload import unpacked_client

PACKED_MAX = 400
"""No client part is longer: a user agent has 256 bytes at most."""

IPV4_BYTES, IPV6_BYTES = 4, 16


class Wanted:
    """
    The network, the browser and the system that a search asks for.

    Raises ValueError if the filter's network is none.
    """

    def __init__(self, session_filter: SessionFilter) -> None:
        self.network = None if session_filter.network is None else named_network(session_filter.network)
        self.browser, self.system = session_filter.browser, session_filter.system
        if self.network is not None:
            network = ip_network(self.network.text)
            self._address_bytes = network.max_prefixlen // 8
            self._shift = network.max_prefixlen - network.prefixlen
            self._begin = int(network.network_address) >> self._shift
        # Of each user agent, as packed: whether it is asked for. No packed one is the beginning of another.
        self._agents: dict[bytes, bool] = {}

    def has(self, address: str, user_agent: str) -> bool:
        """Tell whether a session of this sender is asked for."""
        return (self.network is None or self.network.has(address)) and self._has_agent(user_agent)

    def has_packed(self, client: bytes) -> bool:
        """
        Tell whether a session with this client part is asked for. See :attr:`Record.client_packed`.

        It may be that of a forged record: False if it can't be unpacked.
        """
        if not client or len(client) > PACKED_MAX:
            return False
        # Most are told apart by this. But a user agent may end in these bytes by chance.
        if self.network and int.from_bytes(client[-self._address_bytes :], "big") >> self._shift != self._begin:
            return False
        for length in (IPV4_BYTES, IPV6_BYTES, 0):
            has_agent = self._agents.get(client[: len(client) - length])
            if has_agent is not None:
                return has_agent and (self.network is None or length == self._address_bytes)
        try:
            address, user_agent = unpacked_client(client)
        except (ValueError, OSError, zlib.error):
            return False
        length = (IPV6_BYTES if ":" in address else IPV4_BYTES) if address else 0
        has_agent = self._agents[client[: len(client) - length]] = self._has_agent(user_agent)
        return has_agent and (self.network is None or length == self._address_bytes)

    def _has_agent(self, user_agent: str) -> bool:
        return (self.browser is None or browsers.is_browser(user_agent, self.browser)) and (
            self.system is None or browsers.is_system(user_agent, self.system)
        )
