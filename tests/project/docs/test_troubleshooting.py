"""The page "When it does not work": what a server says, and every line that is logged, is on it."""

from __future__ import annotations

import ast
import logging
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import django_redsess
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from testproject.servers import Server, free_port
from tests.helpers.outages import caches, lines_of
from tests.helpers.running import wait_until
from tests.project.docs.pages import DOCS

PAGE = (DOCS / "howto" / "troubleshooting.rst").read_text()

TITLES = [" ".join(found.split()) for found in re.findall(r"^``([^`]+)``$", PAGE, re.MULTILINE)]
"""What a reader searches for: log lines, errors and answers, with … for what differs."""

UNKNOWN = "Sessions… can't be reached: …"
"""The line of an outage that the page says no more of."""

LOGS = {f"logger.{level}" for level in ("debug", "info", "warning", "error", "exception", "critical")}


def is_told(line: str, titles: list[str]) -> bool:
    return any(re.fullmatch(".*".join(map(re.escape, title.split("…"))), line) for title in titles)


def formats() -> Iterator[str]:
    """Yield what the package hands to its loggers: texts with placeholders."""
    for path in Path(django_redsess.__file__).parent.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        names = {ast.unparse(node.targets[0]): node.value for node in nodes if isinstance(node, ast.Assign)}
        for node in nodes:
            if isinstance(node, ast.Call) and ast.unparse(node.func) in LOGS:
                text = names.get(ast.unparse(node.args[0]), node.args[0])
                yield str(ast.literal_eval(text))


def test_every_line_that_is_logged_is_on_the_page() -> None:
    written = {re.sub(r"%(\.\d)?[a-z]", "", text) for text in formats()}
    assert len(written) > 15
    assert sorted(text for text in written if not is_told(text, TITLES)) == []


def wrong_port(server: Server) -> str:
    return f"redis://127.0.0.1:{free_port()}/0"


def wrong_host(server: Server) -> str:
    return "redis://redis.invalid:6379/0"


def with_tls(server: Server) -> str:
    return server.url.replace("redis://", "rediss://")


def database_99(server: Server) -> str:
    return server.url.removesuffix("/0") + "/99"


def without_password(server: Server) -> str:
    server.client.config_set("requirepass", "hush")
    return server.url


def wrong_password(server: Server) -> str:
    server.client.config_set("requirepass", "hush")
    return server.url.replace("redis://", "redis://:other@")


def replica(server: Server) -> str:
    server.client.replicaof("127.0.0.1", str(free_port()))
    return server.url


def full(server: Server) -> str:
    server.client.config_set("maxmemory", "1")
    return server.url


def without_rights(server: Server) -> str:
    server.client.execute_command("ACL", "SETUSER", "shop", "on", ">secret", "~*", "+@all", "-eval", "-evalsha")
    return server.url.replace("redis://", "redis://shop:secret@")


def unsaved(server: Server) -> str:
    """It can't write its snapshots: their folder is gone."""
    server.client.config_set("save", "900 1")
    shutil.rmtree(server.folder)
    server.client.bgsave()
    wait_until(lambda: server.client.info("persistence")["rdb_last_bgsave_status"] == "err")
    return server.url


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        *(wrong_port, wrong_host, with_tls, database_99, without_password, wrong_password),
        *(replica, full, without_rights, unsaved),
    ],
)
def test_what_a_newcomer_meets_is_on_the_page(
    own_server: Server, fault: Callable[[Server], str], settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.CACHES = caches(fault(own_server), timeout=1)
    session = SessionStore()
    session["colour"] = "blue"
    with pytest.raises(SessionStoreUnavailable):
        session.save()
    [line] = lines_of(caplog, "django_redsess", logging.ERROR)
    assert is_told(line, [title for title in TITLES if title != UNKNOWN])
