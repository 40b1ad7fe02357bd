import pytest
from hypothesis import given
from hypothesis import strategies as some

from django_redsess.exceptions import SessionNotReadable
from django_redsess.session import record as record_module
from django_redsess.session.binding import Binding
from django_redsess.session.record import (
    BOUND,
    DICTIONARIES,
    Record,
    RecordError,
    client_in,
    django_times,
    has_user,
    is_bound,
    log_unusable,
    pack,
    revision_of,
    unpack,
)
from django_redsess.transport.keys import sid_of
from tests.session.records import BINDING, BOUND_RECORD, GUEST, RECORD, SID, bindings

pytestmark = pytest.mark.unit


def read(sid: str, packed: bytes) -> Record:
    """Read a record, all but its revision."""
    return unpack(sid, packed)._replace(revision=b"")


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
    assert read(SID, packed) == record
    assert is_bound(packed) == bool(binding)
    assert client_in(SID, packed) == client
    assert has_user(packed) == bool(user_id)


def test_what_scripts_read_has_a_fixed_place() -> None:
    packed = pack(SID, RECORD)
    assert packed[:1] == b"6"
    assert int.from_bytes(packed[7:12], "big") == 1_791_209_600
    assert int.from_bytes(packed[12:16], "big") == 1_209_600
    assert packed[16:24] == b"\x00\x06" + "7:ä b".encode()
    assert int.from_bytes(packed[24:30], "big") == 1_790_000_000_123
    assert pack(SID, GUEST)[16:18] == b"\x00\x00"
    assert unpack(SID, packed).revision == revision_of(packed) == packed[1:7]
    assert revision_of(pack(SID, RECORD)) != revision_of(packed)


def test_the_id_of_a_binding_has_a_fixed_place_and_the_rest_is_sealed_with_the_data() -> None:
    packed = pack(SID, BOUND_RECORD)
    assert packed[16] & BOUND == BOUND
    assert packed[18:30] == pack(SID, RECORD)[18:30]
    assert packed[30:38] == BINDING.id
    assert Binding.unpack(unpack(SID, packed).binding) == BINDING
    assert len(packed) - len(pack(SID, RECORD)) == 8 + 2 + 6 + 6 + 33


def test_a_guest_has_no_binding() -> None:
    packed = pack(SID, GUEST._replace(binding=BINDING.pack()))
    assert not is_bound(packed)
    assert read(SID, packed) == GUEST


@pytest.mark.parametrize(
    ("field", "seconds", "kept"),
    [
        ("age_seconds", -5, 0),
        ("age_seconds", 2**32 - 1, 2**32 - 1),
        ("age_seconds", 10**30, 2**32 - 1),
        ("deadline_seconds", -5, 0),
        ("deadline_seconds", 10**30, 2**40 - 1),
    ],
)
def test_holds_its_age_and_its_deadline_in_seconds(field: str, seconds: int, kept: int) -> None:
    packed = pack(SID, RECORD._replace(**{field: seconds}))
    read_again = unpack(SID, packed)
    assert getattr(read_again, field) == kept
    assert django_times(packed) == (read_again.deadline_seconds, read_again.age_seconds)


def test_what_scripts_may_move_is_not_sealed() -> None:
    packed = bytearray(pack(SID, RECORD))
    packed[1:16] = bytes(15)
    assert unpack(SID, bytes(packed)) == RECORD._replace(deadline_seconds=0, age_seconds=0, revision=bytes(6))


@pytest.mark.parametrize("record", [RECORD, BOUND_RECORD, GUEST])
def test_every_changed_byte_but_those_of_revision_and_times_is_noticed_and_every_cut(record: Record) -> None:
    packed = pack(SID, record)
    for place in (0, *range(16, len(packed))):
        changed = bytearray(packed)
        changed[place] ^= 1
        with pytest.raises(RecordError):
            unpack(SID, bytes(changed))
    for length in range(len(packed)):
        with pytest.raises(RecordError):
            unpack(SID, packed[:length])


@pytest.mark.parametrize("dictionaries", [32, 64, 96])
def test_a_record_with_dictionaries_of_a_later_release_is_not_taken_for_a_bad_one(
    monkeypatch, dictionaries: int
) -> None:
    monkeypatch.setattr(record_module, "packed_data", lambda data, user_id: (dictionaries, data))
    packed = pack(SID, RECORD)
    assert packed[16] & DICTIONARIES == dictionaries
    with pytest.raises(SessionNotReadable, match="A later release") as raised:
        unpack(SID, packed)
    with pytest.raises(SessionNotReadable):
        log_unusable(SID, raised.value)
    # Where it is forged, it is bad.
    with pytest.raises(RecordError):
        unpack(SID, packed[:-1])


def test_a_record_of_an_earlier_format_another_session_prefix_or_secret_key_is_refused(settings) -> None:
    packed = pack(SID, RECORD)
    with pytest.raises(RecordError, match="unknown format"):
        unpack(SID, b"4" + packed[1:])
    with pytest.raises(RecordError):
        unpack(sid_of("another session key"), packed)
    for name, value in (("REDSESS", {**settings.REDSESS, "PREFIX": "another-site"}), ("SECRET_KEY", "new")):
        before = getattr(settings, name)
        setattr(settings, name, value)
        with pytest.raises(RecordError):
            unpack(SID, packed)
        setattr(settings, name, before)


def test_a_record_under_an_earlier_secret_key_is_read(settings) -> None:
    packed = pack(SID, RECORD)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new", ["newer", settings.SECRET_KEY]
    assert read(SID, packed) == RECORD


def test_a_user_id_too_long_for_the_header_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 255 bytes; this one has 256"):
        pack(SID, RECORD._replace(user_id="é" * 128))
