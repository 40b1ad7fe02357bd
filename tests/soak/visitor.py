"""A visitor of the shop, over HTTP, who tells the ledger whatever an answer has wrong."""

import random
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import requests

from tests.helpers.balancing import Balancer
from tests.helpers.site.accounts import NEW_PASSWORD
from tests.soak.ledger import REMEMBERED, Account, Held, Known, Ledger, Session, Span
from tests.soak.traffic import PRODUCTS

TIMEOUT_SECONDS = 60
"""Longer than anything is frozen: a request that is given up here would still be carried out later."""

SIGNS_OUT = 0.3
"""How many purchases are the last thing that is done while signed in."""

COPIES = 10
"""A visitor keeps so many cookies that are over, and tries them."""


class Answer(NamedTuple):
    """
    ``status`` is 0 where there was none.

    ``known`` is what was known of the session when it was asked for.
    """

    at: Span
    status: int
    text: str
    who: str
    known: Known

    @property
    def is_there(self) -> bool:
        return self.status == 200


@dataclass
class Copy:
    """A cookie whose session is over, or has another key now."""

    cookie: str
    session: Session


class Visitor:
    """Somebody with one browser; a guest without an ``account``. One thread at a time clicks."""

    def __init__(self, number: int, account: Account | None, balancer: Balancer, ledger: Ledger) -> None:
        self.name = f"visitor {number}" + (f" ({account.name})" if account else " (a guest)")
        self.lock = threading.Lock()
        self.session: Session | None = None
        self.history = deque[str](maxlen=REMEMBERED)
        self._account, self._balancer, self._ledger = account, balancer, ledger
        self._copies = deque[Copy](maxlen=COPIES)
        self._number = 0
        self._browser = self._new_browser()

    def click(self, page: str, chance: random.Random) -> None:
        with self.lock:
            if self.session is None:
                self._come()
            elif page == "main":
                self._look("/async/who/" if chance.random() < 0.5 else "/who/")
                self._try_copies(1)
            elif page in PRODUCTS:
                self._look(f"/products/{page}/")
            elif page == "payment_done" and self._account and chance.random() < SIGNS_OUT:
                self._sign_out()
            else:
                self._change()

    def last_visit(self) -> None:
        """See at the end that all is as it must be."""
        with self.lock:
            if self.session:
                self._change()
            self._try_copies(COPIES)

    def _come(self) -> None:
        """Begin a session as a guest, and sign in."""
        self._browser = self._new_browser()
        self._number += 1
        answer = self._ask("GET", f"/swap/number/{self._number}/")
        if not answer.is_there:
            return
        if answer.text != "nothing" or answer.who:
            self._wrong("wrongly in", f"a browser without a cookie got {answer.text!r} of {answer.who!r}")
        self.session = Session(answer.at)
        self.session.numbers.append(Held(answer.at, self._number, True))
        if self._account:
            self._sign_in(self._account, self.session)

    def _sign_in(self, account: Account, guest: Session) -> None:
        before = self._cookie
        answer = self._ask("POST", "/sign-in-by-form/", username=account.name, password=NEW_PASSWORD)
        known = self._ledger.may_sign_in(account, answer.at)
        if answer.is_there and answer.who == account.name:
            self._ledger.count("sign-ins")
            if known is Known.OUT:
                self._wrong("wrongly in", "signed in while blocked")
            if answer.known is not Known.IN:
                guest.numbers.append(Held(guest.begun, None, False))
            self.session = Session(answer.at, account, numbers=guest.numbers)
            # Nobody may go on with the key of the guest.
            guest.ended = answer.at
            self._copies.append(Copy(before, guest))
        elif answer.is_there or answer.status == 403:
            self._ledger.count("blocked")
            self.session = None
            if known is Known.IN:
                self._wrong("wrongly out", f"could not sign in: {answer.text!r}")
        else:
            # The cookie that came with the sign-in, if any, has not come here.
            self.session = None

    def _look(self, path: str) -> None:
        answer = self._ask("GET", path)
        if answer.is_there:
            self._compare(answer, None)

    def _change(self) -> None:
        assert self.session
        self._number += 1
        answer = self._ask("GET", f"/swap/number/{self._number}/")
        if answer.is_there:
            self._compare(answer, None if answer.text == "nothing" else int(answer.text), changed=True)
        else:
            self.session.numbers.append(Held(answer.at, self._number, False))

    def _sign_out(self) -> None:
        session = self.session
        assert session
        cookie = self._cookie
        answer = self._ask("GET", "/sign-out/")
        session.ended = Span(answer.at.start, answer.at.end if answer.is_there else float("inf"))
        if answer.is_there:
            self._copies.append(Copy(cookie, session))
            self._ledger.count("sign-outs")
            self.session = None

    def _compare(self, answer: Answer, number: int | None, *, changed: bool = False) -> None:
        """Compare an answer with what is known of the session. ``number`` is what it held, if it was ``changed``."""
        session = self.session
        assert session
        known, name = answer.known, session.account.name if session.account else ""
        # A guest whose session is gone is told so by the cookie that is deleted, or by another number.
        is_in = answer.who == name and bool(self._cookie) and (bool(name) or number is not None or not changed)
        if answer.who not in (name, ""):
            self._wrong("wrongly in", f"is {answer.who!r}")
        in_failover = self._ledger.touches("failover", answer.at)
        if is_in and known is Known.OUT:
            if in_failover:
                self._ledger.count("stale reads")
                return
            self._wrong("wrongly in", "must be out")
        if not is_in and known is Known.IN:
            self._wrong("wrongly out", f"got {answer.text[:20]!r}")
        if not is_in:
            self._ledger.count("found out")
            self._copies.append(Copy(self._sent, session))
            self.session = None
            return
        self._ledger.prove(session, answer.at)
        if changed:
            if not self._ledger.may_hold(session, number) and in_failover:
                self._ledger.count("stale reads")
            elif not self._ledger.may_hold(session, number):
                self._wrong("lost", f"holds {number}, and not {session.numbers[-1].number}")
            session.numbers = [Held(answer.at, number, True), Held(answer.at, self._number, True)]
            if self._ledger.touches("loss", answer.at):
                session.numbers.insert(0, Held(answer.at, number, False))

    def _try_copies(self, count: int) -> None:
        """See that cookies of sessions that are over open nothing."""
        for _ in range(min(count, len(self._copies))):
            copy = self._copies.popleft()
            answer = self._ask("GET", "/read/number/", copy)
            if answer.is_there and (answer.who or answer.text):
                if answer.known is Known.OUT and self._ledger.touches("failover", answer.at):
                    self._ledger.count("stale reads")
                elif answer.known is Known.OUT:
                    self._wrong("wrongly in", "by the cookie of a session that is over")
            else:
                self._copies.append(copy)

    def _ask(self, method: str, path: str, copy: Copy | None = None, **form: str) -> Answer:
        """Ask the site that is next, with the own cookie or with a copy; count what came of it."""
        browser, session = (self._new_browser(copy.cookie), copy.session) if copy else (self._browser, self.session)
        self._sent = self._cookie
        start, status, text, who = time.monotonic(), 0, "", ""
        with self._balancer.chosen() as site:
            try:
                got = browser.request(method, f"{site.address}{path}", data=form, timeout=TIMEOUT_SECONDS)
                status, text, who = got.status_code, got.text, got.headers.get("X-Who", "")
            except requests.RequestException as error:
                text = type(error).__name__
        at = Span(start, time.monotonic())
        known = self._ledger.known(session, at) if session else Known.OUT
        if session:
            self._ledger.count(f"known to be {known.value}")
        answer = Answer(at, status, text, who, known)
        self._note(f"{method} {path}: {status} {who or 'nobody'}" + (" (a copy)" if copy else ""))
        self._classify(answer, path)
        if self.session and not copy:
            self.session.asked = answer.at
            since = Span(self.session.seen[-1].start, answer.at.end)
            if status == 200:
                self.session.seen.append(answer.at)
            elif self._ledger.touches("rotation", since):
                # It may have brought a session of an older SECRET_KEY another cookie.
                self.session.unsure = True
            if self._cookie and self._cookie != self._sent:
                self.session.keyed = answer.at
        return answer

    def _classify(self, answer: Answer, path: str) -> None:
        self._ledger.count("requests")
        if answer.status == 200 or (answer.status == 403 and path.startswith("/sign-in")):
            return
        if answer.status == 400 and answer.known is not Known.IN:
            # Django's answer where a session ends in the middle of a request.
            self._ledger.count("interrupted")
            return
        kind, window = ("refused", "outage") if answer.status == 503 else ("unanswered", "web")
        self._ledger.count(kind)
        if answer.status not in (0, 503) or not self._ledger.touches(window, answer.at):
            self._wrong("unexplained", f"{path} was answered with {answer.status or answer.text}")

    def _wrong(self, kind: str, text: str) -> None:
        self._ledger.fault(kind, f"{self.name}: {text}", tuple(self.history))

    def _note(self, text: str) -> None:
        self.history.append(f"{time.monotonic() - self._ledger.began:7.1f} s  {text}")

    @property
    def _cookie(self) -> str:
        return self._browser.cookies.get("sessionid") or ""

    @staticmethod
    def _new_browser(cookie: str = "") -> requests.Session:
        browser = requests.Session()
        browser.trust_env = False
        # A site that is stopped would close a connection that is kept just when it is used again.
        browser.headers["Connection"] = "close"
        if cookie:
            browser.cookies.set("sessionid", cookie)
        return browser
