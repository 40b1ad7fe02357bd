"""What support does, and what cron does: beside the operations, and in an outage again until it is done."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import requests

from tests.soak.ledger import Account, Blocked, Ledger, Span
from tests.soak.shop import Shop

TRIES_SECONDS = 120
"""For so long, what an outage has refused is tried again."""

AGAIN_SECONDS = 0.5


class RefusedError(Exception):
    """A page was not answered with 200."""


class Support:
    def __init__(self, shop: Shop, ledger: Ledger, accounts: list[Account], chance: random.Random) -> None:
        self._shop, self._ledger, self._accounts, self._chance = shop, ledger, accounts, chance
        self._blocked: list[tuple[Account, Blocked]] = []

    # Ends.

    def end_user(self) -> None:
        account = self._account()
        with self._ledger.ending(account):
            self._command("endsessions", account.name, "--noinput", "--message=Please sign in again.")

    def end_user_on_a_page(self) -> None:
        account = self._account()
        with self._ledger.ending(account):
            self._page(f"/ends-another/{account.name}/")

    def end_all(self) -> None:
        with self._ledger.ending(*self._accounts):
            self._command("endsessions", "--all", "--noinput")

    def change_password(self) -> None:
        """It is the same one, but salted anew: so the sessions end, and the user can sign in."""
        account = self._account()
        with self._ledger.ending(account):
            self._page(f"/another/{account.name}/password/")

    # Blocks.

    def block(self) -> None:
        account = self._account()
        start = time.monotonic()
        block = Blocked(Span(start))
        account.blocks.append(block)
        with self._ledger.ending(account):
            self._command("blockuser", account.name, "--for=12h")
        block.begun = Span(start, time.monotonic())
        self._blocked.append((account, block))

    def lift_block(self) -> None:
        if not self._blocked:
            self.block()
        account, block = self._blocked.pop(0)
        start = time.monotonic()
        block.lifted = Span(start)
        self._command("blockuser", account.name, "--lift")
        block.lifted = Span(start, time.monotonic())

    # What cron does.

    def check(self) -> None:
        self._command("cleansessions", "--check")

    def repair(self) -> None:
        self._command("cleansessions", "--repair")

    def clean(self) -> None:
        self._command("cleansessions")

    def prune_history(self) -> None:
        self._command("history", "--repair", "--prune")

    def list_online(self) -> None:
        self._command("online", "--guests", "--json")

    def _account(self) -> Account:
        return self._chance.choice(self._accounts)

    def _command(self, *arguments: str) -> None:
        self._try(lambda: self._shop.command(*arguments))

    def _page(self, path: str) -> None:
        def ask() -> None:
            with self._shop.balancer.chosen() as site:
                answer = requests.get(f"{site.address}{path}", headers={"Connection": "close"}, timeout=60)
            if answer.status_code != 200:
                raise RefusedError(f"{path} was answered with {answer.status_code}")

        self._try(ask)

    def _try(self, act: Callable[[], object]) -> None:
        """Do it. Raises what went wrong in the end, or when there is no outage."""
        start = time.monotonic()
        while True:
            try:
                act()
                return
            except (AssertionError, RefusedError, requests.RequestException):
                now = time.monotonic()
                at = Span(start, now)
                if now - start > TRIES_SECONDS or not (
                    self._ledger.touches("outage", at) or self._ledger.touches("web", at)
                ):
                    raise
                time.sleep(AGAIN_SECONDS)


Act = Callable[[Support], None]

WEEK: dict[Act, int] = {
    Support.end_user: 6,
    Support.end_user_on_a_page: 8,
    Support.end_all: 1,
    Support.change_password: 8,
    Support.block: 5,
    Support.lift_block: 3,
    Support.check: 3,
    Support.repair: 2,
    Support.clean: 2,
    Support.prune_history: 2,
    Support.list_online: 2,
}
"""How often each happens in a week."""
