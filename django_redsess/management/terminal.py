"""Lines, questions, progress bars and signals of commands on a terminal."""

from __future__ import annotations

import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.core.management.base import CommandError, OutputWrapper

LINE_SECONDS = 5
"""The time between two progress lines, where there is no bar. With ``--forever``, it is a minute."""

STOPPED = 130
"""The exit status of a command that Ctrl-C has stopped, as in shells."""


def say(line: str, out: OutputWrapper, *, ending: str = "\n") -> None:
    """Print a line for a person."""
    # Names may be in any script. Characters that the terminal's encoding does not have are written as escapes.
    encoding = getattr(out, "encoding", None) or "utf-8"
    out.write(line.encode(encoding, "backslashreplace").decode(encoding), style_func=str, ending=ending)


def need_terminal(to: str) -> None:
    """Raise CommandError if there is no terminal to ask on. ``to`` is what the command is about to do."""
    if not sys.stdin.isatty():
        raise CommandError(f"There is no terminal to ask on: give --noinput to {to} without asking.")


def confirm(question: str, out: OutputWrapper, *, refused: str) -> bool:
    """Ask on the terminal, and return whether the answer is yes. Ctrl-C raises CommandError with ``refused``."""
    try:
        say(f"{question} [y/N] ", out, ending="")
        out.flush()
        answer = sys.stdin.readline()
    except KeyboardInterrupt:
        say("", out)
        raise CommandError(refused, returncode=STOPPED) from None
    if not answer:
        say("", out)
    return answer.strip().lower() in ("y", "yes")


class Stop:
    """Whether SIGTERM or Ctrl-C has asked the command to stop after the batch under way. A second one kills it."""

    def __init__(self) -> None:
        self.asked = False
        self._receiver, self._sender = socket.socketpair()

    def fileno(self) -> int:
        """Return a file descriptor that can be read as soon as the command is asked to stop."""
        return self._receiver.fileno()

    def wait(self, seconds: float) -> None:
        """Return after ``seconds``, or as soon as the command is asked to stop."""
        self._receiver.settimeout(max(seconds, 0.001))
        with suppress(TimeoutError):
            self._receiver.recv(1, socket.MSG_PEEK)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals within this block."""
        # Only the main thread can handle signals. Elsewhere, the code that started the thread has to end the command.
        before = {}
        if threading.current_thread() is threading.main_thread():
            before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self._receiver.close()
            self._sender.close()

    def _ask(self, number: int, frame: object) -> None:
        self.asked = True
        self._sender.send(b".")
        signal.signal(number, signal.SIG_DFL)


def progress_bar(total: int | None) -> Any:
    """Start a bar on stderr up to ``total``; None for an unknown total. Returns None if tqdm is not installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    return tqdm(total=total, unit="", unit_scale=False, leave=False, dynamic_ncols=True)
