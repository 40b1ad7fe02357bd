"""Who clicks on what, one after the other: recorded, or made in the shape of what was recorded."""

import random
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

from testproject.replay import read_events

PAGES = ("main", "catalog", "product1", "product2", "cart", "delivery_choice", "payment_choice", "payment_done")

PRODUCTS = ("product1", "product2")

NEXT = {
    "": (20, 75, 0, 0, 5, 0, 0, 0),
    "main": (5, 90, 0, 0, 5, 0, 0, 0),
    "catalog": (30, 30, 12, 17, 11, 0, 0, 0),
    "product1": (5, 60, 5, 5, 25, 0, 0, 0),
    "product2": (5, 60, 5, 5, 25, 0, 0, 0),
    "cart": (10, 35, 0, 0, 0, 55, 0, 0),
    "delivery_choice": (5, 15, 0, 0, 10, 0, 70, 0),
    "payment_choice": (5, 15, 0, 0, 10, 0, 0, 70),
    "payment_done": (60, 40, 0, 0, 0, 0, 0, 0),
}
"""How often which of the pages follows a page, in a hundred."""

LEAVES = 0.14
"""How many clicks are the last one of a visit: half of all visits have five clicks or fewer."""

AT_ONCE = 30
"""So many visits go on at the same time."""


class Click(NamedTuple):
    user: str
    page: str


def recorded(path: Path) -> Iterator[Click]:
    """
    Yield the clicks of a file of recorded visits in their order, for ever.

    Raises ReplayError if it is none.
    """
    with path.open(encoding="utf-8", newline="") as lines:
        events, _ = read_events(lines)
    events.sort(key=lambda event: event.at)
    return cycle([Click(event.user, event.item) for event in events])


def made(chance: random.Random) -> Iterator[Click]:
    """Make clicks, for ever."""
    visits = [(f"user {number}", "") for number in range(AT_ONCE)]
    number = AT_ONCE
    while True:
        at = chance.randrange(AT_ONCE)
        user, page = visits[at]
        page = chance.choices(PAGES, NEXT[page])[0]
        yield Click(user, page)
        visits[at] = (user, page)
        if chance.random() < LEAVES:
            visits[at] = (f"user {number}", "")
            number += 1
