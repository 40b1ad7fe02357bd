"""
Shoppers who go on clicking while the demo runs: a thread, in which some of them look at one product after another.

They click in this process, each with the browser and the address that they came with. A shopper whose session was ended
reads so on the next page, and signs in again a while later: unless the user has as many sessions as are allowed, since
another sign-in would end somebody else's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from heapq import heapify, heappop, heappush
from random import Random

import redis
from django.conf import settings
from django.contrib.auth.models import User
from django.db import DatabaseError

from django_redsess import online
from django_redsess.exceptions import SessionStoreUnavailable
from testproject import people
from testproject.people import Visitor

SHOPPERS, GUESTS = 9, 3
"""How many of those who are here click. The others have left a window open."""

# From … to seconds. Those who click do so for three minutes, and then pause for four: about one click in 1.5 seconds.
NEXT, PAUSE, RETURN, RETRY = (3, 11), (60, 420), (40, 120), (120, 300)
PAUSES = 0.04
"""How many clicks have a pause after them."""

OUTAGE_SECONDS = 60
"""Nobody clicks for so long after the shop has failed: each failure is a line in the log."""

STOP_SECONDS = 5


@contextmanager
def clicking(shoppers: Sequence[Visitor], guests: Sequence[Visitor]) -> Iterator[None]:
    """Let some of these visitors click meanwhile."""
    chance = Random(6)
    visitors = [*_some(shoppers, SHOPPERS, chance), *_some(guests, GUESTS, chance)]
    stopped = threading.Event()
    thread = threading.Thread(target=_click, args=(visitors, stopped, chance), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        # The servers stop next: a click under way would fail.
        thread.join(STOP_SECONDS)


def _some(visitors: Sequence[Visitor], count: int, chance: Random) -> list[Visitor]:
    return chance.sample(visitors, min(count, len(visitors)))


def _click(visitors: Sequence[Visitor], stopped: threading.Event, chance: Random) -> None:
    for visitor in visitors:
        # An error of the shop is a page, as in any browser.
        visitor.browser.raise_request_exception = False
    now = time.monotonic()
    # When each clicks, and whether to sign in then. Two in three begin at once.
    clicks = [(now + chance.uniform(*(PAUSE if at % 3 == 2 else (0, 10))), at, False) for at in range(len(visitors))]
    heapify(clicks)
    while clicks:
        due, at, is_out = heappop(clicks)
        if stopped.wait(max(0, due - time.monotonic())):
            return
        try:
            seconds, is_out = look_around(visitors[at], chance, is_out=is_out)
        except (SessionStoreUnavailable, redis.RedisError, DatabaseError):
            seconds = OUTAGE_SECONDS
        heappush(clicks, (time.monotonic() + seconds, at, is_out))
        if seconds == OUTAGE_SECONDS and stopped.wait(OUTAGE_SECONDS):
            return


def look_around(visitor: Visitor, chance: Random, *, is_out: bool) -> tuple[float, bool]:
    """Look at a product, after signing in again if ``is_out``. Return seconds until the next one, and ``is_out``."""
    if is_out and _has_room(visitor):
        visitor.sign_in()
    product = chance.choice(people.products())
    page = visitor.look_at(product)
    if page.status_code >= 500:
        return OUTAGE_SECONDS, is_out
    if visitor.username and not page.wsgi_request.user.is_authenticated:
        # Refused, or ended just now: the page has said why.
        return chance.uniform(*(RETRY if is_out else RETURN)), True
    if chance.random() < 0.1 or not (visitor.username or visitor.sid):
        # A guest has a session with a basket only.
        visitor.put_into_basket(product)
    return chance.uniform(*(PAUSE if chance.random() < PAUSES else NEXT)), False


def _has_room(visitor: Visitor) -> bool:
    user = User.objects.filter(username=visitor.username).first()
    return user is not None and len(online.of_user(user)) < settings.REDSESS["MAX_SESSIONS_PER_USER"]
