import json
import pickle
import random
import zlib
from contextlib import suppress
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as some

from django_redsess.session.compression import (
    AGENTS,
    BACKEND_KEY,
    DATA,
    DEFLATED,
    HASH,
    ID_KEY,
    PLAIN_BYTES_MAX,
    SIGNED_IN,
    packed_client,
    packed_data,
    unpacked_client,
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
    assert (FORMAT, sha256(AGENTS + DATA + ID_KEY + BACKEND_KEY).hexdigest()[:16]) == (b"4", "0b89c70a6054ef67")


@given(DATAS, USERS)
def test_data_reads_as_it_was_written(data: bytes, user_id: bytes) -> None:
    assert unpacked_data(packed_data(data, user_id), user_id) == data


@pytest.mark.parametrize("user_id", [b"", USER])
@pytest.mark.parametrize("size", [0, 29, 30, 512, 513, 5_000, 1_000_000])
def test_data_reads_as_it_was_written_however_long(size: int, user_id: bytes) -> None:
    random_bytes, same = random.Random(1).randbytes(size), b"a" * size
    assert unpacked_data(packed_data(random_bytes, user_id), user_id) == random_bytes
    assert unpacked_data(packed_data(same, user_id), user_id) == same
    assert unpacked_data(packed_data(same + KEYS_OF_USER + same, user_id), user_id) == same + KEYS_OF_USER + same


@pytest.mark.parametrize("before", [0, 1, 63, 65_535, 65_536, 200_000])
def test_keys_are_found_again_where_they_were(before: int) -> None:
    data = b"%b%b." % (b"." * before, KEYS_OF_USER)
    assert unpacked_data(packed_data(data, USER), USER) == data


@pytest.mark.parametrize("data", [b"%b{}", b"{}%b", b"{%b}", b"%b", b"{ %b}", b"[%b]"])
def test_keys_that_stand_alone_read_as_they_were_written(data: bytes) -> None:
    for keys in (KEYS_OF_USER, KEYS_OF_USER[KEYS_OF_USER.index(b'"_auth_user_hash') :]):
        assert unpacked_data(packed_data(data % keys, USER), USER) == data % keys


def test_keys_are_found_again_at_the_last_place_that_can_be_told() -> None:
    for before in range(65_535 - len(KEYS_OF_USER), 65_538):
        data = b"%b%b." % (b"." * before, KEYS_OF_USER)
        assert unpacked_data(packed_data(data, USER), USER) == data


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"{%b}" % KEYS_OF_USER, SIGNED_IN),
        (b'{%b,"a":1}' % KEYS_OF_USER, SIGNED_IN),
        (b'{"a":1,%b}' % KEYS_OF_USER, SIGNED_IN),
        (b"{%b,%b}" % (BASKET, KEYS_OF_USER), SIGNED_IN),
        (b"{%b,%b,%b}" % (BASKET, BASKET.replace(b"basket", b"list"), KEYS_OF_USER), SIGNED_IN | DEFLATED),
        (b"{%b}" % KEYS_OF_USER.replace(b"ModelBackend", b"RemoteUserBackend"), HASH | DEFLATED),
        (b"{%b}" % KEYS_OF_USER.replace(b'"7"', b'"8"'), HASH | DEFLATED),
        (b"{%b}" % KEYS_OF_USER.replace(DIGITS.encode(), DIGITS.upper().encode()), DEFLATED),
        (b"{%b}" % BASKET, DEFLATED),
        (b'{"a":1}', 0),
        (b"", 0),
        (random.Random(1).randbytes(100), 0),
    ],
)
def test_data_takes_the_kind_that_suits_it(data: bytes, kind: int) -> None:
    packed = packed_data(data, USER)
    assert packed[0] == kind
    assert unpacked_data(packed, USER) == data


@pytest.mark.parametrize("user_id", ['"', "\\", "ä", "7:b", "%b", "{}"])
def test_keys_of_any_user_read_as_they_were_written(user_id: str) -> None:
    session = {
        "_auth_user_id": user_id,
        "_auth_user_backend": "django.contrib.auth.backends.ModelBackend",
        "_auth_user_hash": DIGITS,
    }
    for data in (
        json.dumps(session, separators=(",", ":")).encode(),
        json.dumps(session).encode(),
        pickle.dumps(session),
    ):
        assert unpacked_data(packed_data(data, user_id.encode()), user_id.encode()) == data


def test_few_bytes_are_left_as_they_are() -> None:
    data = b'{"_session_expiry":1209600}'.ljust(PLAIN_BYTES_MAX)
    assert packed_data(data, b"") == b"\0" + data
    assert packed_data(data + b" ", b"")[0] == DEFLATED


def test_what_django_and_browsers_write_takes_few_bytes() -> None:
    assert len(packed_data(b"{%b}" % KEYS_OF_USER, USER)) == 33
    assert len(packed_data(b"{%b}" % BASKET, b"")) <= PLAIN_BYTES_MAX + 1
    assert len(packed_client("192.0.2.1", AGENT)) <= 4 + 13


@given(some.binary(), USERS)
def test_bytes_that_nobody_packed_raise_or_read_as_something(packed: bytes, user_id: bytes) -> None:
    with suppress(ValueError, IndexError, zlib.error):
        unpacked_data(packed, user_id)


@pytest.mark.parametrize("kind", [8, 16, 128, SIGNED_IN | HASH, SIGNED_IN | HASH | DEFLATED])
def test_an_unknown_kind_of_data_is_refused(kind: int) -> None:
    packed = bytes([kind]) + packed_data(BASKET, b"")[1:] * 9
    with pytest.raises((ValueError, zlib.error)):
        unpacked_data(packed, USER)


def test_deflated_data_cut_short_is_refused() -> None:
    packed = packed_data(BASKET * 3, b"")
    for length in range(len(packed)):
        with pytest.raises((ValueError, IndexError)):
            unpacked_data(packed[:length], b"")


@given(some.ip_addresses().map(str) | some.just(""), some.text(max_size=256))
def test_a_client_reads_as_it_was_written(address: str, user_agent: str) -> None:
    read, agent = unpacked_client(packed_client(address, user_agent))
    assert agent == user_agent
    # An address of IPv6 may be written in several ways.
    assert packed_client(read, "") == packed_client(address, "")


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::7", "::1", ""])
def test_an_address_reads_as_it_was_written(address: str) -> None:
    assert unpacked_client(packed_client(address, AGENT)) == (address, AGENT)


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(OSError, match="illegal"):
        packed_client("192.0.2", AGENT)
