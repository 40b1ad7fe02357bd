"""What is found wrong with a master behind Sentinel, and when it is not asked."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.helpers.checks import NEVER, found
from tests.helpers.running import wait_until
from tests.helpers.sentinels import behind_sentinel

pytestmark = pytest.mark.both_servers

SENTINEL_KWARGS = {"socket_connect_timeout": 0.5, "socket_timeout": 0.5, "retry": NEVER}


@pytest.fixture
def put(own_server, tmp_path, settings) -> Iterator[Callable[..., None]]:
    """Return a function that puts the site behind a sentinel that names ``own_server``."""
    with ExitStack() as ended:

        def put(query: str = "", **options: Any) -> None:
            caches = ended.enter_context(behind_sentinel(own_server, tmp_path))
            caches["sessions"]["LOCATION"] += query
            caches["sessions"]["OPTIONS"] |= {"SENTINEL_KWARGS": SENTINEL_KWARGS, **options}
            settings.CACHES = {**settings.CACHES, **caches}

        yield put


@pytest.fixture
def replica(server, own_server) -> Iterator[None]:
    server.client.replicaof("127.0.0.1", own_server.port)
    wait_until(lambda: own_server.client.info("replication")["connected_slaves"] == 1)
    yield
    server.client.replicaof("NO", "ONE")


def test_a_master_that_writes_without_its_replicas_is_warned_of(put, replica, own_server) -> None:
    put()
    assert found() == ["W025"]
    own_server.client.config_set("min-replicas-to-write", 1)
    # The server may not have looked at its replicas since.
    assert "W025" not in found()
    # This switches the minimum off.
    own_server.client.config_set("min-replicas-max-lag", 0)
    assert found() == ["W025"]


@pytest.mark.parametrize("case", ["no replicas", "no sentinels", "refuses to tell", "could hold up the command"])
def test_a_master_is_not_warned_of_where(put, set_cache, own_server, request, case: str) -> None:
    if case != "no replicas":
        request.getfixturevalue("replica")
    if case == "refuses to tell":
        own_server.client.acl_setuser("site", enabled=True, nopass=True, keys=["*"], commands=["+@all", "-info"])
        put(USERNAME="site", PASSWORD="any")
    elif case == "no sentinels":
        set_cache(own_server.url)
    else:
        put(**({"SOCKET_TIMEOUT": None} if "hold" in case else {}))
    assert found() == (["W010"] if "hold" in case else [])
