"""The scripts in lua/agreement.lua and lua/permissions.lua, each by itself."""

from typing import Any

import pytest

from django_redsess.transport import scripts

pytestmark = pytest.mark.both_servers

META = "{redsess}:meta"


@pytest.fixture
def agree(store) -> Any:
    """Return a function that asks as a site with these secret keys does."""

    def agree(*fingerprints: str, partitions: int = 4, begins: bool = True, takes_key: bool = False) -> list[bytes]:
        given = {"partitions": partitions, "format": "6", "begins": begins, "takes_key": takes_key}
        *found, time = store.run(scripts.AGREEMENT, **given, fingerprints=fingerprints)
        assert abs(int(time[0]) * 1000 - store.now) < 60_000
        return found

    return agree


def test_the_first_site_to_ask_writes_what_all_must_agree_on(store, agree) -> None:
    assert agree("aa") == [b"4", b"6", b"1"]
    assert store.content() == {META: {b"partitions": b"4", b"format": b"6", b"keys": b"aa"}}
    assert agree("aa", partitions=8) == [b"4", b"6", b"1"]


def test_a_copy_that_is_missing_is_not_written_before_the_store_has_agreed(store, agree) -> None:
    assert agree("aa", begins=False) == [b"", b"", b""]
    assert store.content() == {}


@pytest.mark.parametrize(
    ("fingerprints", "takes_key", "knows", "keys"),
    {
        "the same key": (["aa"], False, b"1", b"aa"),
        "a new key, the old one a fallback": (["bb", "aa"], False, b"1", b"aa bb"),
        "another site's": (["bb", "cc"], False, b"", b"aa"),
        "another one, which it is to take": (["bb"], True, b"1", b"aa bb"),
    }.values(),
)
def test_a_site_must_know_one_of_the_keys(
    store, agree, fingerprints: list[str], takes_key: bool, knows: bytes, keys: bytes
) -> None:
    agree("aa")
    assert agree(*fingerprints, takes_key=takes_key)[2] == knows
    assert store.client.hget(META, "keys") == keys


def test_the_newest_eight_keys_are_known(store, agree) -> None:
    for number in range(10):
        agree(f"{number:02}", takes_key=True)
    assert store.client.hget(META, "keys") == b"02 03 04 05 06 07 08 09"


def test_permissions_are_those_of_the_user_who_asks(own_server) -> None:
    client = own_server.client
    given = scripts.ACL.arguments(commands=["GET", "SET", "NOSUCH"], names=["our:a", "our:b", "other"])
    assert client.eval(scripts.ACL.text, 0, *given) == [[b"NOSUCH"], []]
    # None is taken for refused because it got too many arguments, or too few.
    every = scripts.ACL.arguments(commands=[*scripts.commands_of_scripts(), "EVAL", "SELECT", "WAIT"], names=["our:a"])
    assert client.eval(scripts.ACL.text, 0, *every) == [[], []]
    client.execute_command("ACL", "SETUSER", "default", "resetkeys", "~our:*", "-set")
    commands, names = client.eval(scripts.ACL.text, 0, *given)
    assert (sorted(commands), names) == ([b"NOSUCH", b"SET"], [b"other"])
    client.execute_command("ACL", "SETUSER", "default", "allkeys", "+set")
