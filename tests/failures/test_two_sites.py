"""Two sites on one database: each is refused what would be the other's, and nothing of the other is read or ended."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.test import AsyncClient, Client

from django_redsess import online
from django_redsess.backend import SessionStore
from tests.helpers.outages import full, replica
from tests.helpers.store import dump, pool, stored
from tests.helpers.visitors import Browser

pytestmark = [pytest.mark.django_db, pytest.mark.both_servers]

OTHER_KEY = r"know another SECRET_KEY"


@pytest.fixture
def process(settings, redis) -> Iterator[Callable[..., None]]:
    """Return a function that goes on as a process which has just started, with this key and these fallbacks."""
    before = settings.REDSESS

    def start(key: str, *fallbacks: str, **redsess: Any) -> None:
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = key, list(fallbacks)
        settings.REDSESS = {**settings.REDSESS, **redsess}
        pool().invalidate()

    yield start
    settings.REDSESS = before
    # What belongs to other prefixes, too.
    redis.flushall()


def visit() -> list[int]:
    """Return the status that a visitor with a cookie gets, over WSGI and over ASGI."""
    browsers = Browser(Client()), Browser(AsyncClient())
    for browser in browsers:
        browser.cookie = "x" * 32
    return [browser.get("/account/sessions/").status_code for browser in browsers]


def works(redis: Any) -> bool:
    """Tell whether this site may use the store; where not, it has changed nothing."""
    before = dump(redis)
    try:
        online.count()
    except ImproperlyConfigured:
        assert dump(redis) == before
        return False
    return True


@pytest.mark.parametrize("prefix", ["shop:0", "shop:1", "shop:2:7", "shop:12"])
def test_a_prefix_that_may_be_a_partition_of_another_is_refused(redis, process, new_session, prefix: str) -> None:
    process("key", PREFIX="shop", PARTITIONS=4)
    for number in range(40):
        new_session(f"{number}")
    process("key", PREFIX=prefix, PARTITIONS=1)
    assert visit() == [500, 500]
    words = r"^REDSESS\['PREFIX'\] must be .* end in a colon and a number.*; it is '"
    for use in (online.end_all, online.count, SessionStore().create):
        with pytest.raises(ImproperlyConfigured, match=words):
            use()
    for command in (["endsessions", "--all"], ["online"], ["cleansessions"]):
        with pytest.raises(CommandError, match=words):
            call_command(*command, **({"interactive": False} if command[1:] else {}))
    process("key", PREFIX="shop", PARTITIONS=4)
    assert (online.count(), stored(redis)) == (40, 40)


@pytest.mark.parametrize("prefix", ["shop", "shop:eu", "shop:1a", "shop:", "shop1", "1", "shop:0:eu"])
def test_other_prefixes_may_be_beside_it(redis, process, new_session, prefix: str) -> None:
    process("key", PREFIX="shop", PARTITIONS=4)
    new_session("7")
    names = set(redis.keys())
    process("key", PREFIX=f"{prefix}:beside" if prefix == "shop" else prefix, PARTITIONS=1)
    new_session("8")
    assert (online.count(), online.end_all()) == (1, 1)
    process("key", PREFIX="shop", PARTITIONS=4)
    assert online.count() == 1
    assert names <= set(redis.keys())


def test_a_site_with_another_key_is_refused_what_is_not_its_own(redis, process, new_session) -> None:
    alice = User.objects.create_user("alice")
    process("of one site")
    new_session(str(alice.pk))
    process("of another site")
    before = dump(redis)
    assert visit() == [500, 500]
    for use in (lambda: online.end_user(alice), online.end_all, online.sessions, SessionStore().create):
        with pytest.raises(ImproperlyConfigured, match=OTHER_KEY) as refused:
            use()
    for part in ("another REDSESS['PREFIX']", "SECRET_KEY_FALLBACKS", "endsessions --all --new-secret-key"):
        assert part in str(refused.value)
    assert "of another site" not in str(refused.value)
    for command in ("online", "cleansessions", "cleanviewed"):
        with pytest.raises(CommandError, match=OTHER_KEY):
            call_command(command)
    assert dump(redis) == before
    process("of one site")
    assert online.count() == 1


def test_a_key_is_replaced_by_rolling_deploys_in_which_everybody_works(redis, process) -> None:
    # A worker of the old code starts while both run; at the end, the code of before comes back.
    for keys in (("a",), ("b", "a"), ("a",), ("b", "a"), ("b",), ("c", "b"), ("b",), ("c",), ("b",)):
        process(*keys)
        assert works(redis)
    process("d")
    assert not works(redis)


def test_only_the_newest_keys_are_known_and_redis_knows_little_of_them(redis, process) -> None:
    for number in range(20):
        process(f"key {number}", f"key {number - 1}")
        assert works(redis)
    assert [len(each) for each in redis.hget("{redsess}:meta", "keys").split()] == [16] * 8
    for number, right in ((19, True), (12, True), (11, False), (0, False)):
        process(f"key {number}")
        assert works(redis) is right
    process("key 19", PREFIX="blog")
    assert works(redis)
    assert redis.hget("{blog}:meta", "keys") not in redis.hget("{redsess}:meta", "keys").split()


def test_who_replaced_a_key_that_leaked_begins_anew_with_one_command(redis, process, new_session, capsys) -> None:
    process("leaked")
    old = [new_session("7"), new_session("8"), new_session(colour="blue")]
    process("new")
    with pytest.raises(CommandError, match=OTHER_KEY):
        call_command("endsessions", all=True, interactive=False)
    with pytest.raises(CommandError, match="--new-secret-key ends all sessions: give --all with it"):
        call_command("endsessions", "alice", new_secret_key=True, interactive=False)
    call_command("endsessions", all=True, new_secret_key=True, interactive=False)
    assert "Ended 2 sessions of 2 users." in capsys.readouterr().out
    process("new")
    assert online.count() == 0
    assert [SessionStore(session.session_key).load() for session in old] == [{}, {}, {}]
    new_session("7")
    assert online.count() == 1


def test_what_keys_of_their_own_have_encrypted_stays_for_guests_and_the_command_says_so(
    process, new_session, capsys
) -> None:
    own = {"ENCRYPT": True, "ENCRYPTION_KEYS": ["a key of this site, for its sessions only"]}
    process("leaked", **own)
    user, guest = new_session("7"), new_session(colour="blue")
    process("new", **own)
    call_command("endsessions", all=True, new_secret_key=True, interactive=False)
    assert "Guests' sessions that ENCRYPTION_KEYS have encrypted stay. cleansessions --max-guests 0 ends them." in (
        capsys.readouterr().out
    )
    process("new", **own)
    assert SessionStore(user.session_key).load() == {}
    assert SessionStore(guest.session_key)["colour"] == "blue"
    call_command("cleansessions", max_guests=0, verbosity=0)
    assert SessionStore(guest.session_key).load() == {}


@pytest.mark.parametrize("state", [full, replica])
def test_a_server_that_takes_no_writes_is_asked_all_the_same(own_server, settings, process, new_session, state) -> None:
    settings.CACHES["sessions"]["LOCATION"] = own_server.url
    settings.CACHES = {**settings.CACHES}
    process("first")
    new_session("7")
    with state(own_server.client if state is full else own_server):
        for key, fallbacks, right in (("first", (), True), ("second", ("first",), True), ("third", (), False)):
            process(key, *fallbacks)
            assert works(own_server.client) is right


def test_a_process_asks_once_and_of_two_sites_that_begin_together_one_is_refused(redis, commands, process) -> None:
    for key, right in (("first", True), ("second", False), ("first", True), ("third", False)):
        process(key)
        assert works(redis) is right
    process("first")
    online.count()
    commands()
    for _ in range(5):
        online.count()
    assert commands()["evalsha"] == 5
