"""A load balancer without a socket: it says which site is to be asked next."""

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tests.helpers.running import Gunicorn, wait_until


class Balancer:
    """``sites`` that serve one store. It can be used from any thread."""

    def __init__(self, sites: list[Gunicorn]) -> None:
        self.sites = sites
        self._changing, self._used = threading.Lock(), Counter[Gunicorn]()

    @contextmanager
    def chosen(self) -> Iterator[Gunicorn]:
        """Give a site for one request, or for some."""
        with self._changing:
            site = random.choice(self.sites)
            self._used[site] += 1
        try:
            yield site
        finally:
            with self._changing:
                self._used[site] -= 1

    def drain(self, site: Gunicorn) -> None:
        """Choose this site no more, and return when nobody uses it."""
        with self._changing:
            self.sites.remove(site)
        wait_until(lambda: self._used[site] == 0)

    def add(self, site: Gunicorn) -> None:
        with self._changing:
            self.sites.append(site)
