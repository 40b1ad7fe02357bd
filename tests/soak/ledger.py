"""
What the soak knows: who must be signed in, who must not, and what their sessions may hold.

All times are of the monotonic clock of this process. What is known of an event is when it began at the earliest, and
when it was over at the latest: a ``Span``. A request that touches it may have come before or after. So for most answers
only one thing is right, for some both are, and no answer is waited for.
"""

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import Literal, NamedTuple

Kind = Literal["outage", "web", "loss", "failover", "night", "rotation"]
"""
Times at which something else than usual may happen: ``outage``: an answer may be 503; ``web``: there may be none;
``loss``: what was acknowledged may be lost; ``night``: the server's clock jumps; ``rotation``: sessions get new keys.
"""

CLOCK_SECONDS = 2
"""A process asks for the server's time once a second."""

IDLE_NIGHTS = 2
"""After so many nights without a visit, a session is over: see settings.py."""

REMEMBERED = 30
"""Lines that are kept of what each visitor has met."""


class Span(NamedTuple):
    start: float
    end: float = inf

    def touches(self, other: "Span") -> bool:
        return self.start <= other.end and other.start <= self.end

    def is_before(self, other: "Span") -> bool:
        return self.end < other.start


class Known(Enum):
    IN = "in"
    OUT = "out"
    EITHER = "in or out"


@dataclass
class Blocked:
    """A block. Each night lifts it, too: it is for hours."""

    begun: Span
    lifted: Span = field(default_factory=lambda: Span(inf))


@dataclass
class Account:
    """A user. ``ends`` are those of all sessions that the user had then."""

    name: str
    ends: list[Span] = field(default_factory=list)
    blocks: list[Blocked] = field(default_factory=list)


class Held(NamedTuple):
    """A number that the session has held: for sure if it was ``acknowledged``."""

    at: Span
    number: int | None
    acknowledged: bool


@dataclass
class Session:
    """
    What one visitor knows of the own session.

    ``proved`` is the last answer that has shown that the session is there: at first, it began. ``seen`` are the last
    answers, and ``asked`` is the last request, whether it was answered or not. ``keyed`` is the answer that brought the
    present cookie. ``unsure`` is True once an answer is missing that may have brought another.
    """

    begun: Span
    account: Account | None = None
    ended: Span | None = None
    unsure: bool = False
    numbers: list[Held] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.proved = self.keyed = self.asked = self.begun
        self.seen = deque([self.begun], maxlen=10)
        self.numbers = self.numbers or [Held(self.begun, None, True)]


class Fault(NamedTuple):
    at: float
    kind: str
    text: str
    history: tuple[str, ...]


class Ledger:
    """What has happened so far. It can be used from any thread."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.counts = Counter[str]()
        self.faults: list[Fault] = []
        self.over = False
        self.windows: dict[str, list[Span]] = defaultdict(list)
        self._lock = threading.Lock()

    # What is told.

    @contextmanager
    def announced(self, *kinds: Kind, before: float = 0, after: float = 0) -> Iterator[None]:
        """Let this be a time of these ``kinds``, from some seconds before until some seconds after the body."""
        start = time.monotonic() - before
        with self._lock:
            places = [(kind, len(self.windows[kind])) for kind in kinds]
            for kind in kinds:
                self.windows[kind].append(Span(start))
        try:
            yield
        finally:
            for kind, place in places:
                self.windows[kind][place] = Span(start, time.monotonic() + after)

    @contextmanager
    def ending(self, *accounts: Account) -> Iterator[None]:
        """All sessions of these users end in the body. If it fails, they may end at any time."""
        start = time.monotonic()
        places = [(account, len(account.ends)) for account in accounts]
        for account in accounts:
            account.ends.append(Span(start))
        yield
        for account, place in places:
            account.ends[place] = Span(start, time.monotonic())

    def prove(self, session: Session, at: Span) -> None:
        """An answer has shown that the session is there. What may have ended it before has not."""
        if not self.touches("loss", at):
            session.proved, session.unsure = at, False

    def fault(self, kind: str, text: str, history: tuple[str, ...] = ()) -> None:
        with self._lock:
            # What is seen while all is being stopped says nothing.
            if not self.over:
                self.faults.append(Fault(time.monotonic() - self.began, kind, text, history))

    def count(self, name: str) -> None:
        with self._lock:
            self.counts[name] += 1

    # What follows from it.

    def touches(self, kind: Kind, span: Span) -> bool:
        return any(each.touches(span) for each in self.windows[kind])

    def nights(self) -> list[Span]:
        """When the clock jumped, until everybody knew."""
        return [Span(start, end + CLOCK_SECONDS) for start, end in self.windows["night"]]

    def known(self, session: Session, at: Span) -> Known:
        """Tell whether a request at this time finds the session."""
        must = may = False
        proved = session.proved
        ends = [*session.account.ends] if session.account else []
        for end in [*ends, session.ended] if session.ended else ends:
            if not (end.is_before(proved) or at.is_before(end)):
                may = True
                must |= proved.is_before(end) and end.is_before(at) and not self.touches("loss", end)
        # In an outage, a session may be read, and not be noted as seen.
        noted = (each for each in reversed(session.seen) if not self.touches("outage", each))
        seen = next((each for each in noted if not self.touches("loss", each)), session.begun)
        nights = self.nights()
        may |= sum(night.end > seen.start and night.start < at.end for night in nights) >= IDLE_NIGHTS
        must |= sum(session.asked.is_before(night) and night.is_before(at) for night in nights) >= IDLE_NIGHTS
        lost = self.touches("loss", session.keyed) and not session.keyed.is_before(proved)
        may |= session.unsure or lost
        return Known.OUT if must else Known.EITHER if may else Known.IN

    def may_hold(self, session: Session, number: int | None) -> bool:
        """Tell whether a session that is there may hold this number."""
        for held in reversed(session.numbers):
            if held.number == number:
                return True
            if held.acknowledged and not self.touches("loss", held.at):
                return False
        return False

    def may_sign_in(self, account: Account, at: Span) -> Known:
        """Tell whether a user who signs in at this time gets in."""
        may_be_blocked = False
        for begun, lifted in [(block.begun, block.lifted) for block in account.blocks]:
            ends = [lifted, *(night for night in self.nights() if night.end > begun.start)]
            earliest = min(each.start for each in ends)
            latest = min(each.end for each in ends if each is lifted or begun.is_before(each))
            if begun.is_before(at) and at.end < earliest:
                return Known.OUT
            may_be_blocked |= not at.is_before(begun) and at.start <= latest
        return Known.EITHER if may_be_blocked else Known.IN
