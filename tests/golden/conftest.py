"""A golden store on the test's server, and the settings of a site that uses it."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.golden import dumps
from tests.golden.contents import STORES, settings_of
from tests.golden.dumps import Golden
from tests.helpers.store import pool

WRITTEN = [(release, store) for release in dumps.releases() for store in STORES]


@pytest.fixture(params=WRITTEN, ids=[f"{release} {store}" for release, store in WRITTEN])
def golden(request: pytest.FixtureRequest, redis: Any, settings: Any) -> Iterator[Golden]:
    """Have the site's sessions in a golden store of a release, as a process that has just started."""
    found = dumps.read(*request.param)
    use(settings, found.options)
    dumps.put(redis, found)
    pool().invalidate()
    yield found
    # Tries and notes last a moment, and the marks are of sessions that ended long ago.
    pool().invalidate()


def use(settings: Any, options: dict[str, Any]) -> None:
    for name, value in settings_of(options).items():
        setattr(settings, name, value)
