"""What the tests of the commands share."""

from collections.abc import Iterator

import pytest

from tests.helpers.outages import caches, close_connections


@pytest.fixture(autouse=True)
def site_on_own_server(request, settings) -> Iterator[None]:
    """Where a test has a server of its own, the site's sessions are on that."""
    if "own_server" not in request.fixturenames:
        yield
        return
    before = settings.CACHES
    settings.CACHES = caches(request.getfixturevalue("own_server").url)
    yield
    close_connections()
    settings.CACHES = before
