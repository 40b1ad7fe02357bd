"""
The binding of a session to its user's device, and the guard that asks for a proof of it.

An app makes bindings, and sets :data:`guard`: ``django_redsess.contrib.device_bound``. The engine stores a binding in
the record of its session, and asks the guard before a request opens such a session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from django.http import HttpRequest

    from django_redsess.session.record import Record
    from django_redsess.session.store import SessionStore

ID_SIZE = 8
TIME_SIZE = 6


class BindingChanged(Exception):  # noqa: N818
    """Another request has changed the binding since it was loaded. Nothing was saved."""


class Binding(NamedTuple):
    """
    The binding of a session to a key pair, whose private key does not leave the device.

    ``id`` are 8 random bytes. ``bound_at`` is when it was made. ``proved_at`` is the time in the challenge that the
    device has signed last: ``bound_at`` if it has signed none since. Both are milliseconds of the server's clock.
    ``public_key`` are the bytes of the key, in the form that the app chooses: ``b""`` if the session is yet to be
    bound.
    """

    id: bytes
    bound_at: int
    proved_at: int
    public_key: bytes

    def pack(self) -> bytes:
        """Return the bytes for the record: the id comes first."""
        times = (each.to_bytes(TIME_SIZE, "big") for each in (self.bound_at, self.proved_at))
        return b"".join((self.id, *times, self.public_key))

    @classmethod
    def unpack(cls, packed: bytes) -> Binding:
        """Return the binding in a record. Its bytes are what :meth:`pack` returned."""
        ends = [ID_SIZE, ID_SIZE + TIME_SIZE, ID_SIZE + 2 * TIME_SIZE]
        bound_at, proved_at = (int.from_bytes(packed[end - TIME_SIZE : end], "big") for end in ends[1:])
        return cls(packed[:ID_SIZE], bound_at, proved_at, packed[ends[2] :])


YET_TO_BE_BOUND = Binding(bytes(ID_SIZE), 0, 0, b"").pack()
"""In place of a binding: the session must be bound soon, or the guard does not admit its requests any more."""


def names_device(binding: bytes) -> bool:
    """Return whether a packed binding, or its id, is one to a device: False for ``b""`` and ``YET_TO_BE_BOUND``."""
    return binding[:ID_SIZE] not in (b"", YET_TO_BE_BOUND[:ID_SIZE])


class Guard(Protocol):
    """What decides whether a request may open a session that has a binding."""

    def prepare(self, request: HttpRequest, session: SessionStore) -> None:
        """Prepare the session of ``request``, before anything has loaded it."""

    def claim(self, request: Any) -> bytes | None:
        """
        Return the id of the binding that ``request`` proves now. ``b""`` if it proves none.

        None if requests without proof are admitted, and move last-seen times as all do.
        """

    def admits(self, session: SessionStore, request: Any, sid: str, record: Record, now: int) -> bool:
        """
        Tell whether ``request`` may open the session ``sid``, whose ``record`` has a binding.

        False if the request goes on without a session. Raises SessionNotProven if it may not go on. ``now`` is the
        server's time in milliseconds. ``request`` is a Django request, or a scope of ASGI in its form.
        """


guard: Guard | None = None
"""The guard. None without an app that binds sessions: then a binding is kept, and nobody asks for a proof."""
