"""The connections that sessions use in an event loop, where a task waits for a free one and holds up no other."""

from __future__ import annotations

import asyncio

from redis.exceptions import ConnectionError as RedisConnectionError

from django_redsess.transport import lines
from django_redsess.transport.places import Place, Places


class _Task:
    """A task that waits."""

    __slots__ = ("future", "place")

    def __init__(self) -> None:
        self.place: Place | None = None
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class LoopPool(Places):
    """The connections to one server of an event loop. Only sessions use them, so no idle one has an unread reply."""

    async def take(self) -> Place:
        """Do as :meth:`django_redsess.transport.pools.Pool.take` does."""
        try:
            place = await self._wait() if self._waiting else self._idle.pop()
        except IndexError:
            place = await self._wait()
        # The event loop has noticed which connections the server closed.
        if (
            place.is_open
            and (line := place.line) is not None
            and not line.at_eof()
            and not (self._may_be_moved and place.connection.should_reconnect())
        ):
            return place
        await self._make_ready(place)
        return place

    async def give(self, place: Place) -> None:
        """Give back a place. All replies on its connection have been read."""
        if place.server != self._master:
            # Another task has found another master.
            await self.drop(place)
            return
        place.home.append(place)
        if self._waiting:
            self.serve()

    async def drop(self, place: Place) -> None:
        """Give back a place whose connection must not be used again, and close that."""
        try:
            await _aclose(place)
        finally:
            self.put(place)

    async def lose_idle(self) -> None:
        """Close the idle connections."""
        idle = self.take_idle()
        try:
            for place in idle:
                await _aclose(place)
        finally:
            for place in idle:
                place.is_open = False
                self.put(place)

    async def _wait(self) -> Place:
        task = _Task()
        try:
            self.stand_in_line(task)
            if task.place is None:
                await asyncio.wait((task.future,), timeout=self.wait_seconds)
                if task.place is None:
                    self.leave_line(task)
        except BaseException:
            self.leave_line(task)
            if task.place is not None:
                self.put(task.place)
            raise
        if task.place is None:
            raise RedisConnectionError("No connection available.")
        return task.place

    async def _make_ready(self, place: Place) -> None:
        try:
            connection = place.connection
            if connection is None:
                await self.source.disconnect(inuse_connections=False)
                place.known.connection = place.connection = await self.source.get_connection()
            else:
                if not place.is_open or (self._may_be_moved and connection.should_reconnect()):
                    await connection.disconnect(nowait=True)
                await self.source.ensure_connection(connection)
            place.line, place.is_open = lines.loop_line_of(place.connection), True
            if self.has_new_master(place):
                await self.lose_idle()
        except BaseException:
            await self.drop(place)
            raise


async def _aclose(place: Place) -> None:
    place.is_open, place.line = False, None
    if place.connection is not None:
        await place.connection.disconnect(nowait=True)
