import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection
from playwright.sync_api import Browser, Page, Playwright

from testproject.https import SOFTWARE_KEYS, make_certificate
from testproject.people import PASSWORD
from testproject.servers import Server
from tests.browser.device_bound.serving import IDP, SHOP, SUBDOMAIN, Site, address, is_bound
from tests.helpers.browsing import CHROMIUM, FLAGS, sign_in
from tests.helpers.proxy import Proxy
from tests.helpers.running import wait_until

FEATURES = f"--enable-features={SOFTWARE_KEYS}"

StartSite = Callable[..., Site]
Launch = Callable[..., Browser]


@pytest.fixture(scope="package")
def kept_proxy(server: Server) -> Iterator[Proxy]:
    with closing(Proxy(server.port)) as started:
        yield started


@pytest.fixture(scope="package")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The file with the certificate of all sites, and the hash by which browsers trust it."""
    file = tmp_path_factory.mktemp("certificate") / "certificate.pem"
    certificate, trusted = make_certificate(SHOP, SUBDOMAIN, IDP, "127.0.0.1")
    file.write_bytes(certificate)
    return file, trusted


@pytest.fixture(scope="package")
def kept_sites(
    kept_proxy: Proxy,
    certificate: tuple[Path, str],
    django_db_setup: None,
    django_db_blocker: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[StartSite]:
    """Return a function that starts a site, once for each environment."""
    with django_db_blocker.unblock():
        connection.ensure_connection()
        with closing(sqlite3.connect(":memory:")) as copy:
            connection.connection.backup(copy)
            tables = copy.serialize()
        connection.close()

    @cache
    def start(**environment: str) -> Site:
        site = Site(tmp_path_factory.mktemp("site"), certificate[0], kept_proxy.url, tables, **environment)
        started.callback(site.close)
        return site

    with ExitStack() as started:
        yield start


@pytest.fixture(scope="package")
def flags(certificate: tuple[Path, str]) -> Callable[[int], list[str]]:
    """Return a function that gives the options of a browser that finds all hosts at this port."""
    # A browser that trusts any certificate binds no session.
    trusted = f"--ignore-certificate-errors-spki-list={certificate[1]}"
    return lambda port: [*FLAGS, trusted, f"--host-resolver-rules=MAP *.example:443 127.0.0.1:{port}"]


@pytest.fixture(scope="package")
def kept_browsers(playwright: Playwright, flags: Callable[[int], list[str]]) -> Iterator[Launch]:
    """Return a function that starts a browser that finds all hosts at this port, once with these options."""

    @cache
    def launch(port: int, *options: str) -> Browser:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*flags(port), *options])
        return launched.enter_context(browser)

    with ExitStack() as launched:
        yield launch


@pytest.fixture
def site(kept_sites: StartSite) -> Site:
    """The shop over https. This process has the same store: it may end the sessions there."""
    kept = kept_sites()
    kept.requests()
    return kept


@pytest.fixture
def outage(kept_proxy: Proxy) -> Iterator[Proxy]:
    """The way of the site to its store, which can be cut."""
    yield kept_proxy
    kept_proxy.restore()


@pytest.fixture
def pass_time(site: Site) -> Iterator[Callable[[int], None]]:
    """Return a function that sets the store's clock ahead by so many seconds, as the site sees it."""
    yield site.set_clock
    site.set_clock(0)


@pytest.fixture
def visitor(kept_browsers: Launch) -> Iterator[Callable[..., Page]]:
    """
    Return a function that opens a page of a new profile: with cookies, keys and a quota of its own.

    Each profile has six signatures: one for a registration, one for each refresh.
    """
    with ExitStack() as opened:

        def open_page(site: Site, *, binds: bool = True, host: str = SHOP, **options: Any) -> Page:
            context = kept_browsers(site.port, *[FEATURES] * binds).new_context(
                base_url=address(host=host), reduced_motion="reduce", **options
            )
            context.set_default_timeout(30_000)
            opened.callback(context.close)
            return context.new_page()

        yield open_page


@pytest.fixture
def start_browser(
    site: Site, playwright: Playwright, flags: Callable[[int], list[str]], tmp_path: Path
) -> Iterator[Callable[[], Page]]:
    """Return a function that starts a browser with one profile, again each time, and gives a page of it."""
    with ExitStack() as started:

        def start() -> Page:
            started.close()
            context = playwright.chromium.launch_persistent_context(
                tmp_path, executable_path=CHROMIUM, args=[*flags(site.port), FEATURES], base_url=address()
            )
            started.callback(context.close)
            return context.pages[0]

        yield start


@pytest.fixture
def page(site: Site, visitor: Callable[..., Page]) -> Page:
    """A page of alice's browser, whose session is bound."""
    opened = visitor(site)
    sign_in(opened, "alice", PASSWORD)
    wait_until(lambda: is_bound(opened))
    opened.goto("/me/")
    return opened


@pytest.fixture
def later_page(page: Page, pass_time: Callable[[int], None]) -> Page:
    """The same page, later. Right after the registration, what the same browser sends needs no proof yet."""
    pass_time(20)
    return page


@pytest.fixture
def elsewhere() -> Callable[[str], str]:
    """Return a function that gives the address of a page of another site that has a link to a path of the shop."""
    return lambda path: address(f"/idp/link/?to={quote(address(path))}", host=IDP)
