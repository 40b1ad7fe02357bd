import random
import zlib
from contextlib import suppress
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from django_redsess.session.client import Client, pack_client, unpack_client
from django_redsess.session.compression import AGENTS, DATA
from django_redsess.session.record import (
    BACKEND_KEY,
    DEFLATED,
    HASH,
    ID_KEY,
    PLAIN_BYTES_MAX,
    SIGNED_IN,
    check_depth,
    packed_data,
    unpacked_data,
)
from django_redsess.transport.agreement import FORMAT

pytestmark = pytest.mark.unit

AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
DIGITS = random.Random(1).randbytes(32).hex()
USER = b"7"
KEYS_OF_USER = b'%b%b"' % (ID_KEY + USER + BACKEND_KEY, DIGITS.encode())
BASKET = b'"basket":{"item-00":1,"item-01":2}'

# Pieces of what is cut out, whole and damaged: data that looks like it, and must come back as it was.
PIECES = some.sampled_from(
    [
        *(
            KEYS_OF_USER,
            ID_KEY + USER + BACKEND_KEY,
            ID_KEY + b"8" + BACKEND_KEY,
            KEYS_OF_USER[:-1],
            DIGITS.encode(),
            DIGITS.upper().encode(),
        ),
        *(DIGITS[:63].encode(), b" " * 64, b'"', b"{", b"}", b",", BASKET, b'"_auth_user_hash":"', b"\0" * 33),
    ]
)
DATAS = some.binary() | some.lists(PIECES | some.binary(max_size=3), max_size=9).map(b"".join)
USERS = some.sampled_from([b"", USER, b"8", b'"', b"%b", b"\\", "ä".encode()]) | some.binary(max_size=255)


def test_the_dictionaries_never_change_within_a_format() -> None:
    assert (FORMAT, sha256(AGENTS + DATA + ID_KEY + BACKEND_KEY).hexdigest()[:16]) == (b"6", "0b89c70a6054ef67")


@given(DATAS, USERS)
def test_data_reads_as_it_was_written(data: bytes, user_id: bytes) -> None:
    # The keys of this user are cut out, those of another are not.
    for each in (data, data.replace(KEYS_OF_USER, b'%b%b"' % (ID_KEY + user_id + BACKEND_KEY, DIGITS.encode()))):
        assert unpacked_data(*packed_data(each, user_id), user_id) == each


def test_data_of_each_kind_and_length_reads_as_it_was_written() -> None:
    for data in [
        *(b"%b%b." % (b"." * before, KEYS_OF_USER) for before in (63, 200_000)),
        # Around the last place that can be told.
        *(b"%b%b." % (b"." * before, KEYS_OF_USER) for before in range(65_535 - len(KEYS_OF_USER), 65_538)),
        *(b"a" * size for size in (29, 30, 512, 513, 1_000_000)),
        *(random.Random(1).randbytes(size) for size in (100, 5_000)),
        *(data % KEYS_OF_USER for data in (b"%b", b"{%b}", b"[%b]", b'{%b,"a":1}', b'{"a":1,%b}', b'{"a":1} %b')),
        b"{%b}" % KEYS_OF_USER[KEYS_OF_USER.index(b'"_auth_user_hash') :],
        b"{%b,%b,%b}" % (BASKET, BASKET.replace(b"basket", b"list"), KEYS_OF_USER),
        b"{%b}" % KEYS_OF_USER.replace(b"ModelBackend", b"RemoteUserBackend"),
        b"{%b}" % KEYS_OF_USER.replace(DIGITS.encode(), DIGITS.upper().encode()),
    ]:
        for user_id in (b"", USER):
            assert unpacked_data(*packed_data(data, user_id), user_id) == data


def test_what_django_and_browsers_write_takes_few_bytes() -> None:
    assert len(packed_data(b"{%b}" % KEYS_OF_USER, USER)[1]) == 32
    assert len(packed_data(b"{%b}" % BASKET, b"")[1]) <= PLAIN_BYTES_MAX
    assert len(pack_client(Client("192.0.2.1", AGENT))) <= 4 + 13


@given(some.integers(0, 255), some.binary(), USERS)
def test_bytes_that_nobody_packed_raise_or_read_as_something(kind: int, packed: bytes, user_id: bytes) -> None:
    with suppress(ValueError, zlib.error):
        unpacked_data(kind, packed, user_id)


@pytest.mark.parametrize("kind", [8, 16, 128, SIGNED_IN | HASH, SIGNED_IN | HASH | DEFLATED])
def test_an_unknown_kind_of_data_is_refused(kind: int) -> None:
    with pytest.raises((ValueError, zlib.error)):
        unpacked_data(kind, packed_data(BASKET, b"")[1] * 9, USER)


@given(some.ip_addresses().map(str) | some.just(""), some.text(max_size=256))
def test_a_client_reads_as_it_was_written(address: str, user_agent: str) -> None:
    read, agent = unpack_client(pack_client(Client(address, user_agent)))
    assert agent == user_agent
    # An address of IPv6 may be written in several ways.
    assert pack_client(Client(read)) == pack_client(Client(address))


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(OSError, match="illegal"):
        pack_client(Client("192.0.2", AGENT))


def test_a_shared_object_takes_no_time_without_end() -> None:
    shared: Any = []
    for _ in range(100):
        shared = [shared, shared]
    check_depth({"basket": shared}, b"[" * 1000)
