"""What the tests of locks share."""

from collections.abc import Callable, Iterator

import pytest

from tests.helpers.serving import Site, serving
from tests.helpers.site import MIDDLEWARE, VIEWED_VIEWS


@pytest.fixture
def site_settings(settings, users_in_no_table) -> None:
    """The site of tests/helpers/site in place of the shop."""
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    settings.MIDDLEWARE = MIDDLEWARE
    settings.REDSESS = {**settings.REDSESS, "VIEWED_VIEWS": VIEWED_VIEWS}


@pytest.fixture
def site(site_settings) -> Iterator[Site]:
    """The site, served by real threads."""
    with serving() as site:
        yield site


@pytest.fixture
def locks(redis) -> Callable[[], list[str]]:
    """Return a function that names the keys of locks in the store."""
    return lambda: sorted(name.decode() for name in redis.keys() if b":lock:" in name)
