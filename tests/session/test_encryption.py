"""Records that are encrypted: what is hidden, what is covered, with which keys, and how it is switched on and off."""

import asyncio
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import blake2b
from io import StringIO
from traceback import TracebackException
from typing import Any
from zlib import crc32

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings as settings_of_site
from django.core.management import call_command
from hypothesis import given
from hypothesis import strategies as some

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.conf import Conf
from django_redsess.exceptions import SessionNotReadable
from django_redsess.online.searching import HEAD_BYTES
from django_redsess.session import encryption
from django_redsess.session.client import Client, pack_client
from django_redsess.session.record import (
    Record,
    RecordError,
    client_in,
    django_times,
    has_user,
    is_bound,
    is_encrypted,
    log_unusable,
    pack,
    revision_of,
    unpack,
)
from django_redsess.session.state import Visit
from django_redsess.transport.keys import keyspace, sid_of
from tests.helpers.outages import lines_of
from tests.helpers.store import faults, text_of
from tests.session.records import AGENT, BINDING, BOUND_RECORD, GUEST, RECORD, SID, bindings

ENCRYPT = Conf.ENCRYPT
KEY, OTHER_KEY = "a key of this site, for its sessions only", b"another key, as a manager of keys returns it"


@pytest.fixture
def encrypts(request, settings, monkeypatch) -> Callable[..., None]:
    """Encrypt, in a store of any number of partitions. Return a function that goes on with other settings."""
    if "partitions" in request.fixturenames:
        # With four, it encrypts whatever REDSESS says.
        request.getfixturevalue("partitions")
        monkeypatch.setattr(Conf, "ENCRYPT", ENCRYPT)

    def encrypts(on: bool = True, **redsess: Any) -> None:
        settings.REDSESS = {**settings.REDSESS, "ENCRYPT": on, **redsess}

    encrypts()
    return encrypts


@pytest.fixture
def without_package(monkeypatch) -> Iterator[Callable[[], None]]:
    """Return a function that goes on as a process without the package ``cryptography``."""

    def go_on() -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == "cryptography"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "cryptography", None)
        encryption._ciphers.cache_clear()

    yield go_on
    encryption._ciphers.cache_clear()


def read(sid: str, packed: bytes) -> Record:
    """Read a record, all but its revision."""
    return unpack(sid, packed)._replace(revision=b"")


def stored(redis: Any, session: SessionStore) -> bytes:
    return bytes(redis.hget(keyspace().of_sid(str(session.sid)).login, session.sid))


def opened(session: SessionStore) -> dict[str, Any]:
    return dict(SessionStore(session.session_key).items())


@pytest.mark.unit
@pytest.mark.usefixtures("encrypts")
@given(
    some.text(max_size=63),
    some.integers(0, 2**48 - 1),
    some.integers(0, 2**40 - 1),
    some.integers(0, 2**32 - 1),
    some.binary() | some.binary(min_size=250, max_size=260) | some.just(b"a" * 65_535),
    some.binary(),
    some.sampled_from(["", "shop.serializers.Own", "s" * 255]),
    bindings,
)
def test_reads_whatever_it_wrote(
    user_id: str, login_ms: int, deadline: int, age: int, client: bytes, data: bytes, serializer: str, binding: bytes
) -> None:
    binding = binding if user_id else b""
    record = Record(user_id, login_ms if user_id else 0, deadline, age, client, data, serializer, binding)
    packed = pack(SID, record)
    assert is_encrypted(packed)
    assert read(SID, packed) == record
    assert client_in(SID, packed) == client
    assert has_user(packed) == bool(user_id)
    assert django_times(packed) == (deadline, age)
    assert is_bound(packed) == bool(binding)


@pytest.mark.unit
def test_data_address_and_browser_are_hidden_and_what_scripts_read_is_not(encrypts) -> None:
    packed = pack(SID, RECORD)
    assert packed[16:24] == b"\x10\x06" + "7:ä b".encode()
    assert int.from_bytes(packed[24:30], "big") == 1_790_000_000_123
    for hidden in (b"basket", RECORD.client_packed, bytes([192, 0, 2, 1])):
        assert hidden not in packed
    encrypts(False)
    sealed = pack(SID, RECORD)
    assert b"basket" in sealed
    assert bytes([192, 0, 2, 1]) in sealed
    assert len(packed) - len(sealed) == 2 + 28 - 12
    assert not is_encrypted(sealed)
    encrypts()
    bound = pack(SID, BOUND_RECORD)
    assert bound[30:38] == BINDING.id
    assert BINDING.public_key not in bound
    # Each reads both.
    for on in (True, False):
        encrypts(on)
        assert read(SID, packed) == read(SID, sealed) == RECORD


@pytest.mark.unit
@pytest.mark.usefixtures("encrypts")
@pytest.mark.parametrize("record", [RECORD, BOUND_RECORD, GUEST])
def test_every_changed_byte_but_those_of_revision_and_times_is_noticed_and_every_cut(record: Record) -> None:
    packed = pack(SID, record)
    name_at = 18 + (len(record.user_id.encode()) + 6 if record.user_id else 0) + len(record.binding[:8])
    for place in (0, *range(16, len(packed))):
        for bit in (1, 16, 128):
            changed = bytearray(packed)
            changed[place] ^= bit
            # By the first bit of its name, the key may be one of ENCRYPTION_KEYS that another process
            # has. The length of user id and the bit of a binding tell where that name is.
            is_named = (place, bit) in ((name_at, 128), (16, 128)) or place == 17
            with pytest.raises((RecordError, encryption.KeyMissing) if is_named else RecordError):
                unpack(SID, bytes(changed))
    for length in range(len(packed)):
        with pytest.raises(RecordError):
            unpack(SID, packed[:length])
    with pytest.raises(RecordError):
        unpack(SID, packed + b"\0")


@pytest.mark.unit
@pytest.mark.usefixtures("encrypts")
def test_a_sealed_record_is_no_encrypted_one_and_the_other_way_round(encrypts) -> None:
    packed = pack(SID, RECORD)
    encrypts(False)
    for each in (packed, pack(SID, RECORD)):
        changed = bytearray(each)
        changed[16] ^= 16
        # The first bytes of a seal, which are random, may look like the name of a key that is missing here.
        with pytest.raises((RecordError, SessionNotReadable)):
            unpack(SID, bytes(changed))


@pytest.mark.unit
@pytest.mark.usefixtures("encrypts")
def test_no_nonce_is_used_twice_and_no_two_writes_are_alike() -> None:
    packed = [pack(SID, GUEST) for _ in range(1000)]
    assert len({each[20:32] for each in packed}) == 1000
    assert all(len(each) == 18 + 2 + 12 + 1 + 2 + 16 for each in packed)
    assert len({each[32:] for each in packed}) == 1000
    assert len({revision_of(each) for each in packed}) == 1000


@pytest.mark.unit
def test_a_record_of_another_session_prefix_or_secret_key_is_refused(encrypts, settings) -> None:
    packed = pack(SID, RECORD)
    # Those of the same group have the same key.
    others = [sid_of(f"session {number}") for number in range(100)]
    assert {encryption._group_of(sid) for sid in others} == set(range(16))
    for sid in others:
        with pytest.raises(RecordError, match="no key decrypts it"):
            unpack(sid, packed)
    header = packed[16:30]
    assert encryption.decrypted(SID, header, packed[30:])
    assert encryption.decrypted(SID, header + b" ", packed[30:]) is None
    before = settings.REDSESS, settings.SECRET_KEY
    for name, value in (("REDSESS", {**settings.REDSESS, "PREFIX": "another-site"}), ("SECRET_KEY", "new")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(settings, name, value)
            with pytest.raises(RecordError):
                unpack(SID, packed)
        settings.REDSESS, settings.SECRET_KEY = before
    assert read(SID, packed) == RECORD


@pytest.mark.unit
@pytest.mark.usefixtures("encrypts")
def test_groups_of_sessions_have_keys_of_their_own_and_none_is_that_of_a_seal(settings) -> None:
    """The key of a group can be derived by whoever has the site's: it never changes within a format."""
    of_prefix = blake2b(
        b"redsess", digest_size=32, key=blake2b(b"a key", digest_size=32, person=b"redsess.cipher").digest()
    ).digest()
    settings.SECRET_KEY = "a key"
    packed = pack(SID, RECORD)
    name = blake2b(b"name", digest_size=2, key=of_prefix).digest()
    assert packed[30:32] == bytes([name[0] & 127, name[1]])
    opening = []
    for group in range(16):
        cipher = AESGCM(blake2b(bytes([group]), digest_size=32, key=of_prefix).digest())
        covered = b"6" + SID.encode() + packed[30:32] + packed[16:30]
        with suppress(InvalidTag):
            opening.append((group, cipher.decrypt(packed[32:44], packed[44:], covered)))
    assert opening == [(crc32(SID.encode()) % 16, encryption.decrypted(SID, packed[16:30], packed[30:]))]


@pytest.mark.unit
@pytest.mark.usefixtures("encrypts")
def test_a_record_under_an_earlier_secret_key_is_read(settings) -> None:
    packed = pack(SID, RECORD)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new", ["newer", settings.SECRET_KEY]
    assert read(SID, packed) == RECORD
    settings.SECRET_KEY_FALLBACKS = []
    with pytest.raises(RecordError):
        unpack(SID, packed)


def keys_of_sessions() -> list[str | bytes]:
    return [KEY, OTHER_KEY]


def fails() -> list[str]:
    raise OSError("the key is s3cret")


def returns_a_text() -> str:
    return KEY


@pytest.mark.unit
@pytest.mark.parametrize("given", [[KEY, OTHER_KEY], f"{__name__}.keys_of_sessions"], ids=["list", "function"])
def test_the_first_of_the_own_keys_writes_and_all_read(encrypts, settings, given: Any) -> None:
    by_secret_key = pack(SID, RECORD)
    encrypts(ENCRYPTION_KEYS=given)
    by_first = pack(SID, RECORD)
    encrypts(ENCRYPTION_KEYS=[OTHER_KEY])
    by_other = pack(SID, RECORD)
    with pytest.raises(encryption.KeyMissing):
        unpack(SID, by_first)
    # They are read where nothing is encrypted any more.
    encrypts(False, ENCRYPTION_KEYS=given)
    assert read(SID, by_first) == read(SID, by_other) == read(SID, by_secret_key) == RECORD
    # And they are no part of SECRET_KEY.
    settings.SECRET_KEY = "new"
    assert read(SID, by_first) == read(SID, by_other) == RECORD
    with pytest.raises(RecordError):
        unpack(SID, by_secret_key)


def shows_secret(error: BaseException) -> bool:
    """Tell whether the error, its causes, or a value of a function of the package that it came through has "s3cret"."""
    found = TracebackException.from_exception(error, capture_locals=True)
    while found is not None:
        values = [
            value for frame in found.stack if frame.filename != __file__ for value in (frame.locals or {}).values()
        ]
        if any("s3cret" in text for text in (*found.format_exception_only(), *values)):
            return True
        found = found.__cause__ or found.__context__
    return False


def returns_none_at_all() -> list[str]:
    return []


def returns_an_empty_key() -> list[str]:
    return [KEY, ""]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("keys", "why"),
    [
        (f"{__name__}.fails", "raised OSError"),
        (f"{__name__}.returns_a_text", "returns no list"),
        (f"{__name__}.returns_none_at_all", "returns no list .* or an empty one"),
        (f"{__name__}.returns_an_empty_key", "returns no list"),
        (f"{__name__}.none", "raised ImportError"),
        ("s3cret.s3cret-key", "raised ModuleNotFoundError"),
        ("s3cret", "raised ImportError"),
        (5, "is no list"),
        ([""], "is no list"),
        ([], "is no list .* or an empty one"),
        ((), "is no list .* or an empty one"),
    ],
)
def test_keys_that_fail_or_are_none_sign_nobody_out_and_are_not_shown(encrypts, keys: Any, why: str) -> None:
    packed = pack(SID, RECORD)
    encrypts(ENCRYPTION_KEYS=keys)
    for call in (lambda: unpack(SID, packed), lambda: pack(SID, RECORD)):
        with pytest.raises(SessionNotReadable, match=rf"REDSESS\['ENCRYPTION_KEYS'\] ({why})") as raised:
            call()
        # What a log, a page of Django's or a service for errors shows of it: texts, causes and the values of functions.
        assert not shows_secret(raised.value)
        with pytest.raises(SessionNotReadable):
            log_unusable(SID, raised.value)


@pytest.mark.unit
@pytest.mark.usefixtures("encrypts")
def test_a_process_without_the_package_shows_no_key(settings, without_package) -> None:
    settings.SECRET_KEY = "s3cret"
    without_package()
    with pytest.raises(SessionNotReadable) as raised:
        pack(SID, RECORD)
    assert not shows_secret(raised.value)


def returns_weak_ones() -> list[str | bytes]:
    return [KEY, b"short", settings_of_site.SECRET_KEY]


@pytest.mark.unit
def test_weak_keys_of_a_function_are_logged_once_and_not_shown(encrypts, settings, caplog) -> None:
    settings.SECRET_KEY = "s3cret-and-it-has-more-than-32-characters"
    encrypts(ENCRYPTION_KEYS=f"{__name__}.returns_weak_ones")
    for _ in range(2):
        pack(SID, RECORD)
    of_function = "The function REDSESS['ENCRYPTION_KEYS'] returns a weak key, number"
    assert lines_of(caplog, "django_redsess", logging.WARNING) == [
        f"{of_function} 1: it has fewer than 32 characters, has fewer than 8 different ones.",
        f"{of_function} 2: it is SECRET_KEY, or one of its fallbacks.",
    ]


calls: list[int] = []


def counted() -> list[str]:
    calls.append(1)
    return [KEY]


@pytest.mark.unit
def test_a_function_of_keys_is_called_once_for_all_prefixes(encrypts, settings) -> None:
    calls.clear()
    names = iter(["one", "two", "three", "four"])
    encrypts(ENCRYPTION_KEYS=f"{__name__}.counted", PREFIX=lambda: next(names))
    for _ in range(4):
        pack(SID, RECORD)
    assert calls == [1]


@pytest.mark.both_servers
@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("way", ["on", "off"])
def test_a_rolling_deploy_signs_nobody_out(redis, encrypts, new_session, way: str) -> None:
    encrypts(way == "off")
    session = new_session("7", colour="blue")
    assert is_encrypted(stored(redis, session)) == (way == "off")
    for colour, on in (("red", True), ("green", False), ("grey", way == "on")):
        encrypts(on)
        found = SessionStore(session.session_key)
        assert found["_auth_user_id"] == "7"
        found["colour"] = colour
        found.save()
        assert is_encrypted(stored(redis, found)) == on
        assert opened(found)["colour"] == colour
        assert [each.user_id for each in online.sessions()] == ["7"]
        assert faults() == []


@pytest.mark.both_servers
def test_a_process_without_the_package_signs_nobody_out(redis, encrypts, new_session, without_package, caplog) -> None:
    session = new_session("7", colour="blue")
    encrypts(False)
    sealed = new_session("8", colour="red")
    without_package()
    encrypts(False)
    key = session.session_key
    for way in (
        lambda: SessionStore(key).load(),
        lambda: asyncio.run(SessionStore(key).aload()),
        online.sessions,
        lambda: online.get(session.sid),
        lambda: online.sessions(network="192.0.2.0/24"),
        lambda: SessionStore(key).setdefault("colour", "grey"),
    ):
        with pytest.raises(SessionNotReadable, match=r"pip install 'django-redsess\[encryption\]'"):
            way()
    assert lines_of(caplog, "django.security.SuspiciousSession", logging.WARNING) == []
    # Those that are not encrypted go on.
    assert opened(sealed)["colour"] == "red"
    encrypts()
    with pytest.raises(SessionNotReadable):
        new_session("9")
    # It is ended by whoever can't read it.
    assert online.count() == 2
    assert online.end(session.sid)
    assert online.count() == 1


@pytest.mark.django_db
@pytest.mark.both_servers
@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize(
    "here", [{"ENCRYPTION_KEYS": [OTHER_KEY]}, {"ENCRYPTION_KEYS": None}], ids=["another key", "SECRET_KEY"]
)
def test_who_lacks_the_key_signs_nobody_out(encrypts, settings, new_session, client, here: dict[str, Any]) -> None:
    """Two processes have different keys: a deploy under way, or an environment variable that one of them lacks."""
    client.raise_request_exception = False
    encrypts(ENCRYPTION_KEYS=[KEY])
    there = new_session("7", colour="blue")
    assert "0 disagree. 0 sessions are sealed, and 1 encrypted." in compared()
    encrypts(**here)
    own = new_session("8", colour="red")
    client.cookies["sessionid"] = there.session_key
    for always in (False, True):
        settings.SESSION_SAVE_EVERY_REQUEST = always
        response = client.get("/login/")
        assert (response.status_code, response.cookies.get("sessionid")) == (500, None)
    with pytest.raises(SessionNotReadable, match="not in REDSESS\\['ENCRYPTION_KEYS'\\] of this process") as raised:
        SessionStore(there.session_key).load()
    assert KEY not in str(raised.value)
    # Lists and searches go on without what this process can't read, and it can be ended.
    assert {found.sid for found in online.sessions()} == {there.sid, own.sid}
    assert [found.sid for found in online.sessions(user_ids=["8"])] == [own.sid]
    assert online.details(there.sid).data is None
    assert online.count(browser="Firefox") == 0
    assert "2 encrypted, 1 of them with a key that this process does not have." in compared()
    encrypts(ENCRYPTION_KEYS=[KEY])
    assert opened(there)["colour"] == "blue"
    encrypts(**here)
    assert online.end(there.sid)
    assert "1 encrypted." in compared()


@pytest.mark.both_servers
def test_a_comparison_without_the_package_says_what_it_can_not_decrypt(encrypts, new_session, without_package) -> None:
    new_session("7")
    without_package()
    assert "1 encrypted, 1 of them with a key that this process does not have." in compared()


def compared() -> str:
    out = StringIO()
    call_command("cleansessions", "--check", stdout=out, stderr=out)
    return out.getvalue()


@pytest.mark.both_servers
def test_what_was_changed_in_the_store_is_refused_and_logged(redis, encrypts, new_session, caplog) -> None:
    session = new_session("7", colour="blue")
    packed = stored(redis, session)
    redis.hset(keyspace().of_sid(session.sid).login, session.sid, packed[:-1] + bytes([packed[-1] ^ 1]))
    assert opened(session) == {}
    [line] = lines_of(caplog, "django.security.SuspiciousSession", logging.WARNING)
    assert line == f"Session data of {session.sid} is not usable: no key decrypts it"


def visited(address: str, user: str, **data: Any) -> SessionStore:
    session = SessionStore()
    session.visit = Visit(lambda: Client(address, AGENT))
    session.update({"_auth_user_id": user, **data})
    session.save()
    return session


@pytest.mark.both_servers
@pytest.mark.usefixtures("partitions")
def test_searches_find_the_encrypted_and_the_sealed(redis, encrypts) -> None:
    encrypts()
    wanted = [visited("192.0.2.1", "7"), visited("192.0.2.2", "7", text=text_of(2 * HEAD_BYTES))]
    visited("198.51.100.1", "7", text=text_of(2 * HEAD_BYTES))
    visited("198.51.100.2", "8")
    encrypts(False)
    wanted.append(visited("192.0.2.3", "8"))
    sids = {str(each.sid) for each in wanted}
    assert {found.sid for found in online.sessions(network="192.0.2.0/24")} == sids
    assert online.count(network="192.0.2.0/24") == 3
    assert {found.sid for found in online.sessions(network="192.0.2.0/24", user_ids=["7"])} == sids - {wanted[2].sid}
    assert online.count(browser="firefox") == 5
    assert online.count(browser="chrome") == 0
    assert {found.address for found in online.sessions(user_ids=["7"])} == {"192.0.2.1", "192.0.2.2", "198.51.100.1"}
    assert faults() == []


@pytest.mark.both_servers
@pytest.mark.usefixtures("encrypts")
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_record_as_long_as_what_a_search_reads_at_first_is_found_for_what_it_says(redis, more: int) -> None:
    size = 300
    while len(stored(redis, session := visited("192.0.2.1", "7", text=text_of(1000)[:size]))) < HEAD_BYTES + more:
        session.flush()
        size += 1
    assert len(stored(redis, session)) == HEAD_BYTES + more
    assert online.count(network="192.0.2.1") == 1
    assert online.count(network="192.0.2.2") == 0


@pytest.mark.both_servers
@pytest.mark.usefixtures("left_alone")
def test_a_search_counts_encrypted_records_that_were_changed(redis, encrypts, caplog) -> None:
    session, changed = visited("192.0.2.1", "7"), visited("192.0.2.1", "7")
    packed = stored(redis, changed)
    redis.hset(keyspace().of_sid(str(changed.sid)).login, str(changed.sid), packed[:-1] + bytes([packed[-1] ^ 1]))
    assert [found.sid for found in online.sessions(network="192.0.2.1")] == [session.sid]
    lines = lines_of(caplog, "django.security.SuspiciousSession", logging.WARNING)
    assert lines[0] == "A search has found records that are not usable: 1."


@pytest.mark.both_servers
@pytest.mark.usefixtures("partitions")
def test_a_comparison_counts_the_sealed_and_the_encrypted(encrypts, new_session) -> None:
    for number in range(5):
        encrypts(number % 2 == 0)
        session = new_session(str(number) if number < 3 else "", number=number)
        if number < 2:
            session.pending = session.pending._replace(binding=BINDING.pack())
            session.save()
    told = compared()
    assert "0 disagree. 2 sessions are sealed, and 3 encrypted." in told
    assert "no key" not in told


def contents(redis: Any) -> bytes:
    """All that is stored, one after the other."""
    readers: dict[bytes, Callable[[bytes], Any]] = {
        b"hash": lambda name: [part for entry in redis.hgetall(name).items() for part in entry],
        b"zset": lambda name: [member for member, _ in redis.zrange(name, 0, -1, withscores=True)],
        b"string": lambda name: [redis.get(name)],
    }
    return b"\n".join(part for name in redis.keys() for part in [name, *readers[redis.type(name)](name)])


@pytest.mark.both_servers
@pytest.mark.usefixtures("partitions")
def test_nothing_in_the_store_shows_data_address_or_browser(redis, encrypts) -> None:
    encrypts(False)
    # Without the hash, it has so few bytes that they are not deflated.
    visited("192.0.2.1", "7", colour="ultramarine", _auth_user_hash="0f" * 32)
    hidden = [b"ultramarine", bytes([192, 0, 2, 1]), pack_client(Client("", AGENT)), b"\x0f" * 32]
    assert all(part in contents(redis) for part in hidden)
    encrypts()
    redis.flushall()
    session = visited("192.0.2.1", "7", colour="ultramarine", _auth_user_hash="0f" * 32)
    opened(session)
    online.sessions(network="192.0.2.0/24")
    shown = contents(redis)
    assert not any(part in shown for part in [*hidden, b"Firefox", b"192.0"])
    # What scripts need is shown.
    assert b"\x017" in shown
    assert session.sid.encode() in shown
