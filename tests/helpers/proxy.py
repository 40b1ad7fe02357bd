"""A TCP proxy between the site and its server, which a test makes misbehave."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from testproject.servers import free_port

Mode = Literal["pass", "refuse", "silent"]


@dataclass
class Loss:
    """Which replies are to be lost."""

    marker: bytes
    skip: int
    times: int
    hang: bool


class Proxy:
    """
    Pass on what comes in on ``port`` to the server on ``target_port``, until told otherwise.

    ``refuse()`` cuts all connections and lets nobody connect; ``silence()`` lets everybody connect and never answers.
    ``lose_reply(marker)`` lets the server run the next command that contains ``marker`` (the digest of a script, say; a
    script that the server does not know yet is sent as text), and cuts the connection in place of the reply; with
    ``skip`` it lets so many pass before, with ``times`` it does so again for those that follow, with ``hang`` the
    client waits in vain instead. ``restore()`` ends all of that.

    ``before(marker, action)`` calls ``action`` once, when such a command is under way and before the server has it: the
    client waits meanwhile, and the action may use the server directly, or any method of the proxy.

    All methods may be called from any thread; what they say holds when they return. ``accepted`` counts the
    connections so far, ``open`` those there are now, ``lost`` the replies that were lost.
    """

    def __init__(self, target_port: int) -> None:
        self.accepted = self.lost = 0
        self._target_port = target_port
        self._mode: Mode = "pass"
        self._loss: Loss | None = None
        self._before: list[tuple[bytes, Callable[[], object]]] = []
        self._clients: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
        self._changing = asyncio.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        for tries_left in reversed(range(5)):
            self.port = free_port()
            try:
                self._do(self._listen())
                break
            except OSError:  # Somebody else was first.
                if not tries_left:
                    raise
        self.url = f"redis://127.0.0.1:{self.port}/0"

    @property
    def open(self) -> int:
        return len(self._clients)

    def refuse(self) -> None:
        self._do(self._change("refuse"))

    def silence(self) -> None:
        self._do(self._change("silent"))

    def restore(self) -> None:
        self._loss = None
        self._do(self._change("pass"))

    def lose_reply(self, marker: str, *, skip: int = 0, times: int = 1, hang: bool = False) -> None:
        self._loss = Loss(marker.encode(), skip, times, hang)

    def before(self, marker: str, action: Callable[[], object]) -> None:
        self._before.append((marker.encode(), action))

    def close(self) -> None:
        self._do(self._change("refuse"))
        self._do(self._end_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", self.port, backlog=1000)

    async def _stop_listening(self) -> None:
        for listening in self._listener.sockets:
            self._loop.remove_reader(listening)
        # A listener that is closed between accept() and its next step would leave that connection open.
        await asyncio.sleep(0)
        self._listener.close()

    async def _change(self, mode: Mode) -> None:
        # A client that is cut goes on at once, and may bring about the next change while this one is under way.
        async with self._changing:
            before = self._mode
            if mode == "refuse" and before != "refuse":
                self._mode = "refuse"
                await self._stop_listening()
            if before == "refuse" and mode != "refuse":
                await self._listen()
            if mode == "refuse" or before != "pass":
                # Also those that were left without an answer: what the client has sent is lost.
                for writer in list(self._clients):
                    await self._cut(writer)
            self._mode = mode

    async def _end_tasks(self) -> None:
        """Wait for what is under way: all clients have been cut. A task that is cancelled at once closes nothing."""
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(tasks)

    async def _cut(self, writer: asyncio.StreamWriter) -> None:
        task = self._clients.pop(writer, None)
        writer.transport.abort()
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode == "refuse":
            writer.transport.abort()
            return
        self.accepted += 1
        self._clients[writer] = self._loop.create_task(self._serve(reader, writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server: asyncio.StreamWriter | None = None
        replies: asyncio.Task[None] | None = None
        losing: list[Loss] = []
        # Cancelled when it is cut; asyncio would complain about a task that says so.
        with suppress(OSError, asyncio.CancelledError):
            try:
                await self._audible()
                answers, server = await asyncio.open_connection("127.0.0.1", self._target_port)
                replies = asyncio.create_task(self._pass_replies(answers, writer, losing))
                await self._pass_commands(reader, server, losing)
            finally:
                self._clients.pop(writer, None)
                writer.transport.abort()
                if replies is not None:
                    replies.cancel()
                if server is not None:
                    server.transport.abort()

    async def _audible(self) -> None:
        while self._mode == "silent":
            # Until restore() cuts this connection.
            await asyncio.sleep(3600)

    async def _pass_commands(
        self, reader: asyncio.StreamReader, server: asyncio.StreamWriter, losing: list[Loss]
    ) -> None:
        tail = b""
        while chunk := await reader.read(1 << 20):
            await self._audible()
            # A marker may be split between two reads.
            seen = tail + chunk
            tail = seen[-100:]
            for entry in list(self._before):
                if entry[0] in seen:
                    self._before.remove(entry)
                    tail = b""
                    await asyncio.to_thread(entry[1])
            loss = self._loss
            if loss and loss.marker in seen:
                tail = b""
                if loss.skip:
                    loss.skip -= 1
                elif loss.times:
                    loss.times -= 1
                    losing.append(loss)
            server.write(chunk)
            await server.drain()

    async def _pass_replies(
        self, answers: asyncio.StreamReader, writer: asyncio.StreamWriter, losing: list[Loss]
    ) -> None:
        with suppress(OSError):
            while chunk := await answers.read(1 << 20):
                await self._audible()
                if losing:
                    self.lost += 1
                    if losing[0].hang:
                        return
                    break
                writer.write(chunk)
                await writer.drain()
        writer.transport.abort()
