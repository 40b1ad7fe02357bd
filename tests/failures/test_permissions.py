"""A server that does not let the site do what it needs: told in one line, and nobody is signed out."""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from django.core.management import CommandError, call_command
from django.test import AsyncClient, Client
from redis.exceptions import ResponseError

from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.transport.packing import pack_command
from testproject.nodes import Node
from testproject.servers import Server
from tests.helpers.outages import caches, end_outage, lines_of, our_errors
from tests.helpers.store import Pipeline, keyspace, pool
from tests.helpers.visitors import Browser, assert_unavailable

pytestmark = [pytest.mark.django_db, pytest.mark.both_servers]

ALL = ("~*", "+@all")


@pytest.fixture
def may(site, own_server, settings) -> Iterator[Callable[..., None]]:
    """Use a server as the user "shop", and return a function that says what that user may do from now on."""

    def may(*rules: str) -> None:
        own_server.client.execute_command("ACL", "SETUSER", "shop", "reset", "on", ">secret", *rules)

    may(*ALL)
    settings.CACHES = caches(f"redis://shop:secret@127.0.0.1:{own_server.port}/0")
    end_outage()
    return may


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (("~*", "+@all", "-hget"), "'hget' command"),
        (("~{other}:*", "+@all"), "key"),
        (("~*", "+@all", "-zscore"), "'zscore' command"),
    ],
    ids=["a command", "the keys", "one of several commands"],
)
def test_what_the_user_of_the_server_may_not_do_is_a_503_that_says_so(browser, alice, may, log, rules, words) -> None:
    browser.sign_in(alice, colour="blue")
    cookie = browser.cookie
    may(*rules)
    # A read asks for more than the record, if this process has not seen the session lately.
    pool().invalidate_reads()
    for _ in range(3):
        assert_unavailable(browser.get(f"{browser.views}/who/"))
    [line] = our_errors(log)
    assert line.startswith("Sessions can't be reached: ")
    assert words in line
    assert str(cookie) not in log.text
    may(*ALL)
    assert browser.get("/who/").content == b"alice"
    assert (browser.cookie, len(our_errors(log))) == (cookie, 1)


def test_what_only_saves_need_keeps_nobody_from_reading(browser, alice, may, log) -> None:
    browser.sign_in(alice, colour="blue")
    may(*ALL, "-hset")
    for _ in range(2):
        assert_unavailable(browser.post(f"{browser.views}/write/colour/red/"))
        assert browser.get(f"{browser.views}/read/colour/").content == b"blue"
    assert len(our_errors(log)) == 1
    # Something else, which that line does not tell.
    may(*ALL, "-hset", "-hdel")
    assert_unavailable(browser.post(f"{browser.views}/sign-out/"))
    first, second = our_errors(log)
    assert ("(HSET in the script save)" in first, "(HDEL in the script end)" in second) == (True, True)
    may(*ALL)
    assert browser.post(f"{browser.views}/write/colour/red/").status_code == 200


@pytest.mark.parametrize(
    ("command", "words"),
    [("EVALSHA", "unknown command 'EVALSHA' (in the script "), ("ZSCORE", "unknown command 'ZSCORE' (read)")],
)
def test_an_unknown_command_or_database_is_a_503_that_names_it(browser, server, settings, log, command, words) -> None:
    with closing(Server(server.binary, "--rename-command", command, "")) as without:
        url = without.url.removesuffix("/0")
        for number, told in ((0, words), (99, "DB index is out of range")):
            log.clear()
            settings.CACHES = caches(f"{url}/{number}")
            browser.cookie = "k" * 32
            assert_unavailable(browser.get(f"{browser.views}/who/"))
            [line] = our_errors(log)
            assert told in line
            # It may be of a script, and what it was sent.
            assert "args beginning" not in line
        settings.CACHES = caches(without.url)
        with pytest.raises(SessionStoreUnavailable, match=r"refuses: .nknown"):
            SessionStore("k" * 32).load()


def test_a_node_of_a_cluster_is_a_503_and_says_so(site, cluster, settings, log) -> None:
    for browser in (Browser(Client()), Browser(AsyncClient())):
        served, named = list[Node](), set[str]()
        for node in cluster.primaries:
            log.clear()
            # Each has a pool of its own: a pool tells once of an outage.
            name = f"client_name={type(browser.client).__name__}"
            settings.CACHES = caches(f"{node.url}?{name}")
            browser.cookie = "k" * 32
            if browser.get(f"{browser.views}/who/").status_code == 200:
                served.append(node)
            else:
                [line] = our_errors(log)
                named.update(re.findall(r"127\.0\.0\.1:(\d+)", line))
            settings.CACHES = caches(f"{node.url.removesuffix('/0')}/1?{name}")
            browser.cookie = "k" * 32
            assert_unavailable(browser.get(f"{browser.views}/who/"))
        assert named == {str(node.port) for node in served}
        assert len(served) == 1


@pytest.mark.parametrize(("option", "lacking"), [("--check", "scan"), ("--repair", "scan"), ("--dry-run", "zcount")])
def test_a_pass_that_lacks_a_permission_ends_at_once_and_names_it(may, option: str, lacking: str) -> None:
    SessionStore().save()
    may(*ALL, f"-{lacking}")
    with pytest.raises(CommandError, match=f"(?i){lacking}.*what to change: .*ACL") as raised:
        call_command("cleansessions", option)
    assert raised.value.returncode == 1


def test_a_fault_of_ours_is_no_outage(redis, log) -> None:
    with pytest.raises(ResponseError, match="wrong number of arguments"):
        Pipeline(keyspace().partitions[0], "read", pack_command("GET"), 1, list).run()
    assert lines_of(log, "django_redsess", logging.ERROR) == []
