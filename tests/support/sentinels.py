"""A sentinel, and settings that find the server of the sessions through it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis as redis_py

from testproject.servers import Server, free_port
from tests.support.outages import TIMEOUT
from tests.support.running import wait_until


@contextmanager
def behind_sentinel(
    server: Server, folder: Path, *, port: int = 0, timeout: float = TIMEOUT, **pool: Any
) -> Iterator[dict[str, Any]]:
    """
    Start a sentinel that names ``port`` as where ``server`` is (its own, unless said otherwise), and give ``CACHES``.

    ``pool`` is for the pool of connections.
    """
    at = free_port()
    config = folder / "sentinel.conf"
    # django-redis finds a pool by its URL: another name for each server.
    config.write_text(f"port {at}\nbind 127.0.0.1\nsentinel monitor shop-{at} 127.0.0.1 {port or server.port} 1\n")
    process = subprocess.Popen([server.binary, config, "--sentinel"], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: _answers(at))
        yield {
            "sessions": {
                "BACKEND": "django_redis.cache.RedisCache",
                "LOCATION": f"redis://shop-{at}/0",
                "OPTIONS": {
                    "CLIENT_CLASS": "django_redis.client.SentinelClient",
                    "CONNECTION_FACTORY": "django_redis.pool.SentinelConnectionFactory",
                    "SENTINELS": [("127.0.0.1", at)],
                    "SOCKET_CONNECT_TIMEOUT": timeout,
                    "SOCKET_TIMEOUT": timeout,
                    "CONNECTION_POOL_KWARGS": pool,
                },
            }
        }
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    try:
        with redis_py.Redis(port=port, socket_timeout=5) as sentinel:
            return bool(sentinel.ping())
    except redis_py.ConnectionError:
        return False
