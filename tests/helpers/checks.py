"""What the system checks find on a site, and how its cache is changed."""

import socket
from collections.abc import Callable

from django.core.checks import CheckMessage, run_checks
from redis.backoff import NoBackoff
from redis.retry import Retry

TIMEOUTS = {"SOCKET_CONNECT_TIMEOUT": 0.5, "SOCKET_TIMEOUT": 0.5}
NEVER = Retry(NoBackoff(), 0)

SetCache = Callable[..., None]


def messages(*, deploy: bool = False) -> list[CheckMessage]:
    """Return what our checks find, by its number: Django runs checks in no order."""
    everything = sorted(run_checks(include_deployment_checks=deploy), key=lambda message: message.id)
    return [message for message in everything if message.id.startswith("django_redsess")]


def found(*, deploy: bool = False) -> list[str]:
    return [message.id.removeprefix("django_redsess.") for message in messages(deploy=deploy)]


def url_of(listening: socket.socket) -> str:
    return f"redis://127.0.0.1:{listening.getsockname()[1]}/0"


def was_called(listening: socket.socket) -> bool:
    try:
        listening.accept()[0].close()
    except TimeoutError:
        return False
    return True
