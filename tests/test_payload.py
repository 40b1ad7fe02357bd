import random
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as some

from django_redsess.payload import DICTIONARY, packed, unpacked
from django_redsess.record import FORMAT

pytestmark = pytest.mark.no_server

AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
HASH = random.Random(1).randbytes(32).hex()
SIGNED_IN = (
    b'{"_auth_user_id":"7","_auth_user_backend":"django.contrib.auth.backends.ModelBackend",'
    b'"_auth_user_hash":"%b"}' % HASH.encode()
)
HEX = "0123456789abcdef"
DIGITS = some.lists(some.just('"') | some.text(HEX, min_size=63, max_size=65) | some.text(HEX + 'g"'), max_size=9).map(
    lambda parts: "".join(parts).encode()
)


def test_the_dictionary_never_changes_within_a_format() -> None:
    assert (FORMAT, sha256(DICTIONARY).hexdigest()[:16]) == (b"2", "8200376d57eb3abe")


@given(some.ip_addresses().map(str) | some.just(""), some.text(), some.binary() | DIGITS)
def test_reads_what_it_wrote(address: str, user_agent: str, data: bytes) -> None:
    user_agent = user_agent.replace("\n", "")
    read, *rest = unpacked(packed(address, user_agent, data))
    assert rest == [user_agent, data]
    # An address of IPv6 may be written in several ways.
    assert packed(read, "", b"") == packed(address, "", b"")


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::7", "::1", ""])
def test_an_address_reads_as_it_was_written(address: str) -> None:
    assert unpacked(packed(address, AGENT, b"{}")) == (address, AGENT, b"{}")


@pytest.mark.parametrize("before", [0, 1, 63, 1024, 65_468, 65_469, 65_470, 65_471, 65_535, 200_000])
def test_a_hash_is_found_again_where_it_was(before: int) -> None:
    data = b'%b"%b".' % (b"." * before, HASH.encode())
    assert unpacked(packed("192.0.2.1", "", data))[2] == data


@pytest.mark.parametrize("size", [0, 1023, 1024, 5_000, 1_000_000])
def test_reads_what_it_wrote_however_long(size: int) -> None:
    data = random.Random(1).randbytes(size)
    assert unpacked(packed("192.0.2.1", AGENT, data)) == ("192.0.2.1", AGENT, data)


def test_what_django_and_browsers_write_takes_few_bytes() -> None:
    assert len(AGENT) + len(SIGNED_IN) > 240
    assert len(packed("192.0.2.1", AGENT, SIGNED_IN)) < 80


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(OSError, match="illegal"):
        packed("192.0.2", AGENT, b"{}")
