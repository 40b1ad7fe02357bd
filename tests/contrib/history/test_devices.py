"""A sign-in on a new device: the cookie, who is told, and the mail."""

import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from contextvars import ContextVar
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Message
from django.contrib.auth.models import User
from django.core import mail
from django.core.mail.backends import smtp
from django.core.mail.backends.base import BaseEmailBackend
from django.core.management import call_command
from django.db import connection, connections
from django.db.backends.signals import connection_created
from django.db.models import F
from django.test import AsyncClient, Client
from django.urls import clear_script_prefix, set_script_prefix
from django.utils import timezone
from django.utils.translation import gettext, override

from django_redsess import online
from django_redsess.contrib.history import devices, mails, repair
from django_redsess.contrib.history.models import BlockCopy, SignIn
from django_redsess.contrib.history.signals import new_device
from testproject import databases
from testproject.servers import free_port
from tests.contrib.history.elsewhere import ALIAS
from tests.helpers.visitors import Browser

pytestmark = pytest.mark.usefixtures("history")

DAY_MS = 24 * 3600 * 1000

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
)


@pytest.fixture
def alice(db) -> User:
    return User.objects.create_user("alice", "alice@shop.example", "secret")


@pytest.fixture
def told() -> Iterator[list[dict[str, Any]]]:
    heard: list[dict[str, Any]] = []

    def receive(**named: Any) -> None:
        heard.append(named)

    new_device.connect(receive)
    yield heard
    new_device.disconnect(receive)


def sign_in(
    browser: Client | None = None, address: str = "198.51.100.7", name: str = "alice", **headers: str
) -> Client:
    # Login times are milliseconds.
    threading.Event().wait(0.002)
    browser = browser or Client()
    browser.post("/logout/")
    data = {"username": name, "password": "secret"}
    response = browser.post("/login/", data, REMOTE_ADDR=address, headers={"User-Agent": FIREFOX, **headers})
    assert response.status_code == 302
    return browser


def test_the_first_device_is_not_new_and_a_second_one_is(told, alice) -> None:
    first = sign_in()
    sign_in(first)
    assert told == []
    second = sign_in(address="203.0.113.9")
    [named] = told
    row = SignIn.objects.latest("login_ms")
    assert (named["user"], named["sign_in"], named["is_new_network"]) == (alice, row, True)
    assert named["request"].path == "/login/"
    assert [row.is_new_device for row in SignIn.objects.order_by("login_ms")] == [False, False, True]
    # Neither another network nor another version of the browser is another device.
    sign_in(second, address="192.0.2.1", **{"User-Agent": FIREFOX.replace("145", "146")})
    sign_in(first)
    assert len(told) == 1
    assert SignIn.objects.values("device_cookie").distinct().count() == 2


@pytest.mark.parametrize(
    ("before", "now", "is_new"),
    [
        ("198.51.100.7", "198.51.7.1", False),
        ("198.51.100.7", "198.52.100.7", True),
        ("2001:db8:1::1", "2001:db8:1:ffff::2", False),
        ("2001:db8:1::1", "2001:db8:2::1", True),
        ("198.51.100.7", "2001:db8:1::1", True),
    ],
)
def test_a_network_is_that_of_its_first_bits(told, alice, before: str, now: str, is_new: bool) -> None:
    sign_in(address=before)
    sign_in(address=now)
    assert [named["is_new_network"] for named in told] == [is_new]


def test_a_device_that_another_user_has_used_is_new_to_this_one(told, alice) -> None:
    User.objects.create_user("bob", password="secret")
    sign_in()
    shared = sign_in(name="bob")
    assert told == []
    sign_in(shared)
    assert [named["user"] for named in told] == [alice]


def test_without_cookies_another_kind_of_browser_is_new(told, alice, settings) -> None:
    ours = "django_redsess.middleware.SessionMiddleware"
    theirs = "django.contrib.sessions.middleware.SessionMiddleware"
    settings.MIDDLEWARE = [theirs if path == ours else path for path in settings.MIDDLEWARE]
    for user_agent in (FIREFOX, FIREFOX.replace("145", "146"), CHROME):
        SignIn.objects.create(user=alice, login_ms=SignIn.objects.count(), user_agent=user_agent)
    assert [devices.cookie_name() in sign_in().cookies for _ in range(2)] == [False, False]
    assert told == []


def test_an_asynchronous_site_tells_it_too(told, alice) -> None:
    sign_in()
    browser = Browser(AsyncClient())
    browser.post("/login/", {"username": "alice", "password": "secret"})
    assert devices.cookie_name() in browser.client.cookies
    assert len(told) == 1


# The mail.


@pytest.fixture
def address(settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "HISTORY_SITE_URL": "https://shop.example/"}


def texts_of(message: Any) -> list[str]:
    """All that a reader of the mail may see: the subject, the plain text, and the HTML."""
    html, _ = message.alternatives[0]
    return [message.subject, message.body, html]


def test_nobody_gets_a_mail_unless_the_site_asks_for_it(alice) -> None:
    sign_in()
    sign_in()
    assert mail.outbox == []


@pytest.mark.usefixtures("notify", "address")
def test_the_mail_says_what_a_user_needs_and_no_session_key(alice, settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "PLACES": f"{__name__}.in_lyon"}
    sign_in()
    thief = sign_in(address="203.0.113.9", **{"User-Agent": CHROME})
    [message] = mail.outbox
    assert message.to == ["alice@shop.example"]
    html, _ = message.alternatives[0]
    for text in (message.body, html):
        assert "203.0.113.9" in text
        assert "Lyon, France" in text
        assert "Chrome on Windows" in text
        assert "https://shop.example/account/sessions/" in text
        assert "testserver" not in text
    key = thief.cookies["sessionid"].value
    shows_key = key in message.message().as_string()
    assert not shows_key


@pytest.fixture
def script_prefix() -> Iterator[None]:
    """Django keeps the prefix of a thread's last request."""
    yield
    clear_script_prefix()


@pytest.mark.usefixtures("notify", "script_prefix")
@pytest.mark.parametrize(
    ("site", "script_name", "root"),
    [
        ("https://shop.example", "", "https://shop.example/"),
        ("https://shop.example", "/shop", "https://shop.example/shop/"),
        ("https://shop.example/shop", "/shop", "https://shop.example/shop/"),
        ("https://shop.example/shop/", "/shop", "https://shop.example/shop/"),
        # A proxy takes the path away, and Django does not know of it.
        ("https://shop.example/shop", "", "https://shop.example/shop/"),
        ("https://shop.example/a/b", "/b", "https://shop.example/a/b/"),
    ],
)
def test_links_are_below_the_path_of_the_site_once(alice, settings, site, script_name, root) -> None:
    settings.REDSESS = {**settings.REDSESS, "HISTORY_SITE_URL": site}
    # As a server does for each request.
    set_script_prefix(f"{script_name}/")
    for _ in range(2):
        Client(SCRIPT_NAME=script_name).post("/login/", {"username": "alice", "password": "secret"})
    [message] = mail.outbox
    found = re.findall(r"https?://[^\s\"]+", f"{message.body} {message.alternatives[0][0]}")
    assert set(found) == {f"{root}account/sessions/", f"{root}account/password/"}


@pytest.mark.usefixtures("notify", "address")
def test_a_mail_says_to_change_the_password_where_the_site_has_no_page_of_that_name(alice, settings) -> None:
    settings.ROOT_URLCONF = "tests.contrib.history.without_passwords"
    settings.REDSESS = {**settings.REDSESS, "HISTORY_LANGUAGE": f"{__name__}.arabic"}
    sign_in()
    sign_in()
    [message] = mail.outbox
    with override("ar"):
        words = gettext("If it was not you, change your password.")
    assert words != "If it was not you, change your password."
    for text in texts_of(message)[1:]:
        assert "https://shop.example/account/sessions/" in text
        assert words in text


def arabic(user: User) -> str:
    return "ar" if user.username == "alice" else ""


def fails(user: User) -> str:
    raise LookupError(user)


@pytest.mark.usefixtures("notify")
@pytest.mark.parametrize(
    ("function", "direction"), [(None, "ltr"), (f"{__name__}.arabic", "rtl"), (f"{__name__}.fails", "ltr")]
)
def test_the_mail_is_in_the_language_of_its_user_and_never_of_the_request(alice, settings, function, direction) -> None:
    settings.REDSESS = {**settings.REDSESS, "HISTORY_LANGUAGE": function}
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]
    sign_in()
    sign_in(**{"Accept-Language": "de" if direction == "rtl" else "ar"})
    [message] = mail.outbox
    assert f'dir="{direction}"' in message.alternatives[0][0]


def in_kolkata(user: User) -> str | None:
    return "Asia/Kolkata" if user.username == "alice" else None


def a_strangers_zone(get_response: Callable[..., Any]) -> Callable[..., Any]:
    """Activate a zone that the request asks for."""

    def middleware(request: Any) -> Any:
        with timezone.override("Pacific/Chatham"):
            return get_response(request)

    return middleware


@pytest.mark.usefixtures("notify")
@pytest.mark.parametrize(("function", "zone"), [(None, " UTC"), (f"{__name__}.in_kolkata", " IST")])
def test_times_in_the_mail_are_in_the_users_zone_and_never_in_that_of_the_request(
    alice, settings, function, zone
) -> None:
    settings.REDSESS = {**settings.REDSESS, "USER_TIME_ZONE": function}
    settings.MIDDLEWARE = [f"{__name__}.a_strangers_zone", *settings.MIDDLEWARE]
    sign_in()
    sign_in()
    [message] = mail.outbox
    for text in (message.body, message.alternatives[0][0]):
        assert zone in text


@pytest.mark.usefixtures("notify")
@pytest.mark.parametrize("host", ["evil.example", "not_allowed.example", "b[d"])
def test_no_host_of_a_request_is_in_the_mail_or_keeps_it_back(alice, settings, host) -> None:
    settings.ALLOWED_HOSTS = ["evil.example", "testserver"]
    sign_in()
    # Django's view reads it after the sign-in. Then the answer is 400, and the session is there.
    settings.MIDDLEWARE = [path for path in settings.MIDDLEWARE if "CommonMiddleware" not in path]
    Client().post("/login/", {"username": "alice", "password": "secret"}, headers={"Host": host})
    assert online.count(user_ids=[str(alice.pk)]) == 2
    [message] = mail.outbox
    for text in texts_of(message):
        assert host not in text
        assert "http" not in text


@pytest.mark.usefixtures("alice")
def test_the_address_is_that_of_djangos_sites_if_somebody_has_set_it(settings, add_sites) -> None:
    assert mails.site_and_root() == ("", "")
    add_sites()
    assert mails.site_and_root() == ("", "")
    from django.contrib.sites.models import Site

    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE django_site (id integer PRIMARY KEY, domain varchar(100), name varchar(50))")
    settings.SITE_ID = 1
    for domain, found in (("example.com", ("", "")), ("shop.example", ("shop.example", "https://shop.example"))):
        Site.objects.clear_cache()
        Site.objects.update_or_create(pk=1, defaults={"domain": domain})
        assert mails.site_and_root() == found


@pytest.mark.usefixtures("notify")
@pytest.mark.parametrize(
    "user_agent",
    [
        "Your account is closed: call 555-0100 or visit evil.example",
        "Win at evil.example Bot/1 (compatible; evil.example; Linux)",
        "Mozilla/5.0 Chrome/18005550100.0 evil.example \u202egnp.exe",
    ],
)
def test_no_word_of_a_strangers_browser_is_in_the_mail(alice, user_agent) -> None:
    sign_in()
    sign_in(**{"User-Agent": user_agent.encode().decode("latin-1")})
    [message] = mail.outbox
    for text in texts_of(message):
        for word in ("evil", "call", "555", "Win ", "\u202e"):
            assert word not in text


@pytest.mark.usefixtures("notify")
@pytest.mark.parametrize(
    ("name", "is_shown"),
    [
        *(("alice", True), ("ada_l-1", True), ("हिन्दी", True), ("alice@shop.example", True)),
        *(
            ("evil.example", False),
            ("me@evil.example", False),
            ("https://evil.example/", False),
            ("evil。example", False),
        ),
        *(("ecila\u202e", False), ("a\u2066b", False), ("x" * 65, False), ("a\nb", False)),
    ],
)
def test_a_name_that_could_be_taken_for_a_link_is_left_out(alice, name, is_shown) -> None:
    User.objects.filter(pk=alice.pk).update(username=name)
    sign_in(name=name)
    sign_in(name=name)
    [message] = mail.outbox
    assert name not in message.subject
    assert [(name in text) for text in texts_of(message)[1:]] == [is_shown] * 2


@pytest.mark.usefixtures("notify")
def test_nobody_gets_more_than_five_a_day(alice) -> None:
    for _ in range(8):
        sign_in()
    assert len(mail.outbox) == 5


@pytest.mark.usefixtures("notify")
def test_of_many_sign_ins_at_once_the_first_five_get_a_mail_and_none_gets_two(alice) -> None:
    rows = [SignIn.objects.create(user=alice, login_ms=number, is_new_device=True) for number in range(1, 11)]
    # All rows are stored before any is told, and two sign-ins in the same millisecond have one.
    for row in [rows[0], *rows]:
        new_device.send(SignIn, request=None, user=alice, sign_in=row, is_new_network=False)
    assert len(mail.outbox) == 5
    assert [row.is_notified for row in SignIn.objects.order_by("login_ms")] == [True] * 5 + [False] * 5


@pytest.mark.usefixtures("notify")
def test_an_account_that_was_not_used_for_longer_than_rows_are_kept_gets_a_mail(alice, settings) -> None:
    own = sign_in()
    own.post("/logout/")
    SignIn.objects.update(login_ms=F("login_ms") - 100 * DAY_MS)
    for _ in range(2):
        list(repair.prune())
    row = SignIn.objects.get()
    assert (row.address, row.address_score, row.user_agent, row.client) == ("", None, "", "Firefox on Linux")
    sign_in(own)
    assert mail.outbox == []
    sign_in(own)
    SignIn.objects.filter(ended_at=None).update(ended_at=row.ended_at, login_ms=F("login_ms") - 200 * DAY_MS)
    list(repair.prune())
    sign_in()
    assert len(mail.outbox) == 1


@pytest.mark.usefixtures("notify")
def test_a_strangers_device_is_new_though_the_latest_row_has_none(alice) -> None:
    sign_in().post("/logout/")
    # As a sign-in that was made up after an outage, by the same kind of browser.
    row = SignIn.objects.get()
    SignIn.objects.create(user=alice, login_ms=row.login_ms + 1, ended_at=row.ended_at, client=row.client)
    SignIn.objects.update(login_ms=F("login_ms") - 100 * DAY_MS)
    list(repair.prune())
    sign_in()
    assert len(mail.outbox) == 1


def test_where_no_device_is_known_another_kind_of_browser_is_new(told, alice) -> None:
    sign_in()
    # As of a row that was made up.
    SignIn.objects.update(device_cookie="")
    sign_in()
    assert told == []
    SignIn.objects.update(device_cookie="")
    sign_in(**{"User-Agent": CHROME})
    assert len(told) == 1


queued = []


@pytest.mark.usefixtures("notify")
def test_a_function_of_the_site_may_queue_the_mail(alice, settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "HISTORY_MAILER": "tests.contrib.history.test_devices.queue"}
    queued.clear()
    sign_in()
    sign_in()
    assert [message.to for message in queued] == [["alice@shop.example"]]
    assert mail.outbox == []


def in_lyon(addresses: list[str]) -> dict[str, str]:
    return dict.fromkeys(addresses, "Lyon, France")


def queue(message: Any) -> None:
    queued.append(message)


@pytest.fixture
def sends_to(settings) -> Any:
    """Return a function that lets mails be sent to this port."""

    def send_to(port: int) -> None:
        settings.REDSESS = {**settings.REDSESS, "HISTORY_NOTIFY": True}
        backend = "django.core.mail.backends.smtp.EmailBackend"
        if hasattr(mail, "mailers"):
            settings.MAILERS = {"default": {"BACKEND": backend, "OPTIONS": {"host": "127.0.0.1", "port": port}}}
        else:
            settings.EMAIL_BACKEND, settings.EMAIL_HOST, settings.EMAIL_PORT = backend, "127.0.0.1", port

    return send_to


class Mailbox(Message):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Any] = []

    def handle_message(self, message: Any) -> None:
        self.messages.append(message)


def test_a_real_server_gets_both_forms_of_the_mail(alice, sends_to) -> None:
    mailbox = Mailbox()
    controller = Controller(mailbox, hostname="127.0.0.1", port=free_port())
    controller.start()
    try:
        sends_to(controller.port)
        sign_in()
        sign_in()
    finally:
        controller.stop()
    [message] = mailbox.messages
    assert message["To"] == "alice@shop.example"
    assert [part.get_content_type() for part in message.get_payload()] == ["text/plain", "text/html"]


@pytest.fixture(params=["silent", "a letter now and then", "closed"])
def failing_port(request) -> Iterator[int]:
    """The port of a mail server that never answers, or never comes to an end, or is not there."""
    if request.param == "closed":
        yield free_port()
        return
    over = threading.Event()

    def drip(connection: socket.socket) -> None:
        with connection:
            while not over.wait(0.05):
                try:
                    if request.param != "silent":
                        connection.sendall(b"2")
                except OSError:
                    return

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=drip, args=[connection]).start()

    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=serve)
    thread.start()
    yield listening.getsockname()[1]
    over.set()
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join()


def test_a_server_that_fails_delays_the_worker_a_little_and_fails_nothing(
    alice, sends_to, failing_port, monkeypatch, caplog
) -> None:
    monkeypatch.setattr(mails, "SECONDS_MAX", 0.5)
    sends_to(failing_port)
    sign_in()
    started = time.monotonic()
    with caplog.at_level(logging.WARNING, "django_redsess"):
        browser = sign_in()
    assert time.monotonic() - started < 3
    assert browser.get("/").context["user"] == alice
    assert [line.message.partition(":")[0] for line in caplog.records] == [
        "The mail about a new device could not be sent"
    ]
    assert SignIn.objects.filter(is_new_device=True).count() == 1


heard_in: list[tuple[bool, str]] = []
"""Of each mail: whether this thread sent it, and the value of a context variable there."""

tenant: ContextVar[str] = ContextVar("tenant", default="none")


class Queue(BaseEmailBackend):
    """A mail backend that writes each mail to a database, as packages do whose workers send them later."""

    def send_messages(self, email_messages: Any) -> int:
        heard_in.append((threading.current_thread() is threading.main_thread(), tenant.get()))
        for message in email_messages:
            BlockCopy.objects.create(user_id=len(heard_in), until=timezone.now(), stored_message=message.subject[:20])
        return len(email_messages)


class LoggingBackend(smtp.EmailBackend):
    """Django's own, whose mails are noted in a database."""

    send_messages = Queue.send_messages


@pytest.fixture
def mails_by(settings) -> Callable[[type], None]:
    """Return a function that lets mails be sent by this backend."""

    def choose(backend: type) -> None:
        path = f"{backend.__module__}.{backend.__qualname__}"
        settings.REDSESS = {**settings.REDSESS, "HISTORY_NOTIFY": True}
        if hasattr(mail, "mailers"):
            options = {"host": "127.0.0.1"} if issubclass(backend, smtp.EmailBackend) else {}
            settings.MAILERS = {"default": {"BACKEND": path, "OPTIONS": options}}
        else:
            settings.EMAIL_BACKEND = path
        heard_in.clear()

    return choose


@pytest.mark.parametrize("backend", [Queue, LoggingBackend])
@pytest.mark.parametrize("kind", ["SQLite", pytest.param("PostgreSQL", marks=pytest.mark.slow)])
def test_a_mail_leaves_no_connection_to_a_database_open(elsewhere, keep_file, kind, backend, mails_by) -> None:
    made: list[Any] = []
    with ExitStack() as stack:
        if kind == "SQLite":
            keep_file()
        elif kind in databases.available():
            server = stack.enter_context(closing(databases.available()[kind]()))
            elsewhere(**{**server.database, "CONN_MAX_AGE": 0, "OPTIONS": {"pool": {"max_size": 4, "timeout": 5}}})
            stack.callback(lambda: (connections[ALIAS].close(), connections[ALIAS].close_pool()))
            call_command("migrate", "redsess_history", database=ALIAS, verbosity=0)
        else:
            pytest.skip(f"no {kind}, or no driver for it")
        mails_by(backend)
        connection_created.connect(lambda connection, **named: made.append(connection), weak=False, dispatch_uid="test")
        stack.callback(connection_created.disconnect, dispatch_uid="test")
        token = tenant.set("lyon")
        try:
            for number in range(6):
                User.objects.create_user(f"user {number}", "someone@shop.example", "secret")
                for _ in range(2):
                    sign_in(name=f"user {number}")
        finally:
            tenant.reset(token)
        assert BlockCopy.objects.using(ALIAS).count() == 6
        # With its own connections, and so in its schema, unless it may keep the thread for ever.
        assert heard_in == [(backend is Queue, "lyon")] * 6
        main = set(map(id, connections.all(initialized_only=True)))
        left = [each for each in made if each.connection is not None and id(each) not in main]
        for each in left:
            each.connection.close()
        assert left == []
