"""The binding in the record of a session: what keeps it, what drops it, and two requests that change it at once."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.sessions.backends.base import UpdateError

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.session import binding as binding_module
from django_redsess.session import messages
from django_redsess.session.binding import Binding, BindingChanged
from django_redsess.session.record import is_bound, unpack
from django_redsess.transport.keys import bucket_of_user, keyspace
from django_redsess.transport.steps import drive
from tests.helpers.store import make_older
from tests.session.records import BINDING
from tests.session.visits import left, opened

pytestmark = pytest.mark.on_cluster

PROVED = BINDING._replace(proved_at=BINDING.proved_at + 300_000)
OTHER = Binding(b"another ", 1_790_000_002_000, 1_790_000_002_000, b"\x03" * 33)


@pytest.fixture(autouse=True)
def unguarded(monkeypatch) -> None:
    monkeypatch.setattr(binding_module, "guard", None)


@pytest.fixture(params=[False, True], ids=["sealed", "encrypted"])
def ways_to_write(request, settings) -> None:
    """Run the test with records that are sealed, and with encrypted ones."""
    settings.REDSESS = {**settings.REDSESS, "ENCRYPT": request.param}


def bind(session: SessionStore, binding: Binding = BINDING) -> SessionStore:
    session.pending = session.pending._replace(binding=binding.pack())
    session.save()
    return session


@pytest.fixture
def bound(new_session) -> SessionStore:
    """A bound session of the user 7."""
    return bind(new_session("7", colour="blue"))


def stored(redis: Any, session: SessionStore) -> bytes:
    return bytes(redis.hget(keyspace().of_sid(str(session.sid)).login, session.sid))


def binding_of(redis: Any, session: SessionStore) -> Binding | None:
    """Return the binding of a session that is stored."""
    packed = stored(redis, session)
    found = unpack(str(session.sid), packed).binding
    assert is_bound(packed) == bool(found)
    return Binding.unpack(found) if found else None


def save(session: SessionStore) -> None:
    session["colour"] = "red"
    session.save()


def save_after_another(session: SessionStore) -> None:
    other = opened(session)
    other["shape"] = "round"
    other.save()
    save(session)


def save_without_loading(session: SessionStore) -> None:
    session.__dict__.pop("_session_cache")
    session.snapshot = type(session).snapshot
    session._session_cache = {"_auth_user_id": "7"}
    save(session)


def rotate(session: SessionStore) -> None:
    session.cycle_key()
    save(session)


def rotate_after_another(session: SessionStore) -> None:
    session.cycle_key()
    save_after_another(SessionStore(session.stored_key or session.saved_key))
    save(session)


def end_copies(session: SessionStore) -> None:
    session.end_copies()
    save(session)


def sign_in_again(session: SessionStore) -> None:
    session.signed_in()
    save(session)


def expire_later(session: SessionStore) -> None:
    session.set_expiry(5_000_000)
    session.save()


def be_told(session: SessionStore) -> None:
    drive(messages.tell_users(["7"], "Hello"))
    assert SessionStore(session.session_key)[messages.MESSAGE_KEY] == "Hello"


@pytest.mark.usefixtures("partitions", "ways_to_write")
@pytest.mark.parametrize(
    "way",
    [
        save,
        save_after_another,
        save_without_loading,
        rotate,
        rotate_after_another,
        end_copies,
        sign_in_again,
        expire_later,
        be_told,
    ],
)
def test_a_binding_is_kept(redis, bound, way: Callable[[SessionStore], None]) -> None:
    session = opened(bound)
    way(session)
    assert binding_of(redis, session) == BINDING
    # It is kept by the save after that one, too.
    save(opened(session))
    assert binding_of(redis, session) == BINDING


def test_a_deadline_that_moves_keeps_the_binding(redis, settings, bound) -> None:
    settings.REDSESS = {**settings.REDSESS, "SLIDING": True}
    make_older(redis, str(bound.sid), 500_000)
    before = left(redis, bound)
    opened(bound)
    assert left(redis, bound) > before
    assert binding_of(redis, bound) == BINDING


def become_another_user(session: SessionStore) -> None:
    session["_auth_user_id"] = "8"
    session.save()


def sign_in_another_user(session: SessionStore) -> None:
    session["_auth_user_id"] = "8"
    session.signed_in()
    session.save()


def become_a_guest(session: SessionStore) -> None:
    del session["_auth_user_id"]
    session.save()


def create(session: SessionStore) -> None:
    session.create()


def flush_and_sign_in(session: SessionStore) -> None:
    session.flush()
    session["_auth_user_id"] = "7"
    session.save()


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("way", [become_another_user, sign_in_another_user, become_a_guest, create, flush_and_sign_in])
def test_another_user_a_guest_and_a_new_session_are_not_bound(
    redis, bound, way: Callable[[SessionStore], None]
) -> None:
    session = opened(bound)
    way(session)
    assert binding_of(redis, session) is None
    # Nor does the user get it back who had it before.
    session["_auth_user_id"] = "7"
    session.save()
    assert binding_of(redis, session) is None


@pytest.mark.parametrize("way", [SessionStore.flush, SessionStore.abandon], ids=["flush", "abandon"])
def test_a_binding_that_was_not_saved_is_given_up_with_the_session(
    redis, new_session, way: Callable[[SessionStore], None]
) -> None:
    session = opened(new_session("7"))
    session.pending = session.pending._replace(binding=BINDING.pack())
    way(session)
    session["_auth_user_id"] = "7"
    session.save()
    assert binding_of(redis, session) is None


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("before", ["", "7", "8"])
def test_a_sign_in_may_store_a_binding(redis, new_session, before: str) -> None:
    session = opened(new_session(before, colour="blue"))
    session["_auth_user_id"] = "7"
    session.signed_in()
    bind(session)
    assert binding_of(redis, session) == BINDING
    # Once.
    assert session.pending.binding is None


@pytest.mark.usefixtures("partitions")
def test_a_guests_session_gets_no_binding(redis, new_session) -> None:
    session = bind(opened(new_session(colour="blue")))
    assert binding_of(redis, session) is None
    sign_in = opened(session)
    sign_in["_auth_user_id"] = "7"
    sign_in.signed_in()
    sign_in.save()
    assert binding_of(redis, sign_in) is None


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize(
    ("before", "first", "second"),
    [(None, BINDING, OTHER), (BINDING, PROVED, PROVED), (BINDING, PROVED, OTHER), (BINDING, OTHER, PROVED)],
    ids=["two keys", "one proof twice", "a proof and a key", "a key and a proof"],
)
def test_of_two_bindings_at_once_one_is_stored(
    redis, new_session, before: Binding | None, first: Binding, second: Binding
) -> None:
    session = new_session("7", colour="blue")
    if before:
        bind(session, before)
    one, two = opened(session), opened(session)
    bind(one, first)
    packed = stored(redis, session)
    two["shape"] = "round"
    with pytest.raises(BindingChanged):
        bind(two, second)
    assert stored(redis, session) == packed


def test_of_two_bindings_at_once_one_is_stored_async(redis, new_session) -> None:
    session = new_session("7", colour="blue")
    one, two = SessionStore(session.session_key), SessionStore(session.session_key)

    async def bind_both() -> None:
        for each, binding in ((one, BINDING), (two, OTHER)):
            assert await each.aget("colour") == "blue"
            each.pending = each.pending._replace(binding=binding.pack())
        await one.asave()
        with pytest.raises(BindingChanged):
            await two.asave()

    asyncio.run(bind_both())
    assert binding_of(redis, session) == BINDING


@pytest.mark.usefixtures("partitions")
def test_a_binding_and_other_changes_at_once_are_all_saved(redis, bound) -> None:
    binds, before, after = opened(bound), opened(bound), opened(bound)
    before["shape"] = "round"
    before.save()
    bind(binds, PROVED)
    after["size"] = 5
    after.save()
    assert binding_of(redis, bound) == PROVED
    assert {**opened(bound)} == {"_auth_user_id": "7", "colour": "blue", "shape": "round", "size": 5}


@pytest.mark.usefixtures("partitions")
def test_a_session_that_ends_or_gets_another_key_meanwhile_is_not_bound(redis, new_session) -> None:
    for way in (rotate, SessionStore.flush):
        session = new_session("7", colour="blue")
        late = opened(session)
        here = opened(session)
        way(here)
        with pytest.raises(UpdateError):
            bind(late)
        if here.session_key:
            assert binding_of(redis, here) is None
        assert not redis.hexists(keyspace().of_sid(str(session.sid)).login, session.sid)


@pytest.mark.usefixtures("partitions")
def test_a_session_that_gets_another_user_meanwhile_is_not_bound(redis, new_session) -> None:
    session = new_session("7", colour="blue")
    late, here = opened(session), opened(session)
    # A view writes the user without login(). Even if both users are in one bucket, the session gets another key.
    bucket = bucket_of_user("7")
    here["_auth_user_id"] = next(user for user in map(str, range(8, 10_000)) if bucket_of_user(user) == bucket)
    here.save()
    with pytest.raises(UpdateError):
        bind(late)
    assert binding_of(redis, here) is None


@pytest.mark.usefixtures("partitions")
def test_a_session_that_becomes_a_guests_meanwhile_is_not_bound(redis, new_session) -> None:
    session = new_session("7", colour="blue")
    late, here = opened(session), opened(session)
    become_a_guest(here)
    bind(late)
    assert binding_of(redis, session) is None
    late["_auth_user_id"] = "7"
    late.save()
    assert binding_of(redis, late) is None


@pytest.mark.usefixtures("partitions", "ways_to_write")
def test_searches_and_lists_read_a_bound_record(redis, bound) -> None:
    bound = opened(bound)
    save(bound)
    assert [found.sid for found in online.sessions(network="192.0.2.0/24")] == [bound.sid]
    assert online.count(user_ids=["7"]) == 1
    [found] = online.sessions(user_ids=["7"])
    assert found.address == "192.0.2.1"
    online.end(str(bound.sid))
    assert online.count(user_ids=["7"]) == 0
