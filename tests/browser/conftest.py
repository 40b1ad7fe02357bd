import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Browser, Page, Playwright, sync_playwright

from testproject.people import PASSWORD
from testproject.shop.catalogue import load_catalogue
from tests.helpers.browsing import CHROMIUM, FLAGS, NO_BROWSER, Visitor, visiting
from tests.helpers.demo import Demo, running


@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    if CHROMIUM is None:
        if "REDSESS_SKIP_NOTHING" in os.environ:
            pytest.fail(NO_BROWSER)
        pytest.skip(NO_BROWSER)
    # Playwright runs an event loop in this thread, in which Django would refuse the tests' own queries. Other tests
    # may follow: it ends with those of this folder.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with sync_playwright() as started:
        yield started
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    with playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS) as launched:
        yield launched


@pytest.fixture
def shop(live_server: Any, transactional_db: None) -> str:
    """The address of a shop with its catalogue, the shopper alice and the administrator."""
    load_catalogue()
    User.objects.create_user("alice", password=PASSWORD)
    User.objects.create_superuser("admin", password="admin")
    return str(live_server.url)


@pytest.fixture
def visitor(browser: Browser, shop: str) -> Iterator[Callable[..., Page]]:
    """Return a function that opens a browser of its own (cookies, size) and gives a page of it."""
    with visiting(browser, shop) as open_page:
        yield open_page


@pytest.fixture(scope="package")
def demo_with(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Demo]]:
    """Return a function that gives the demo with these settings of the tests' site."""
    with ExitStack() as running_demos:

        @cache
        def start(name: str) -> Demo:
            settings = f"tests.helpers.site.settings.{name}"
            demo = running(tmp_path_factory.mktemp(name), DJANGO_SETTINGS_MODULE=settings)
            return running_demos.enter_context(demo)

        yield start


@pytest.fixture
def demo_visitor(browser: Browser, demo_with: Callable[[str], Demo]) -> Iterator[Callable[[str], Visitor]]:
    """Return a function that gives what ``visitor`` does, for the demo with these settings."""
    with ExitStack() as opened:
        yield lambda name: opened.enter_context(visiting(browser, demo_with(name).url))


@pytest.fixture
def keep_picture() -> Callable[[Page, str], None]:
    """Return a function that saves pictures of a page, light and dark, where SCREENSHOTS names a folder for them."""
    folder = os.environ.get("SCREENSHOTS")

    def keep(page: Page, name: str) -> None:
        for scheme in ("light", "dark") if folder else ():
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=Path(folder) / f"{name}-{scheme}.png", full_page=True)

    return keep
