import pytest

from django_redsess.keys import sid_of
from django_redsess.record import Client, Record, RecordError, pack, revision_of, unpack

pytestmark = pytest.mark.no_server

SID = sid_of("some session key")
RECORD = Record("7:ä b", Client("192.0.2.1", "Mozilla/5.0"), b'{"basket": "\n\\u0000"}')


def read(sid: str, packed: bytes) -> Record:
    """Read a record, all but its revision."""
    return unpack(sid, packed)._replace(revision=b"")


def test_reads_what_it_wrote() -> None:
    assert read(SID, pack(SID, RECORD, age_seconds=60)) == RECORD


def test_begins_with_its_format() -> None:
    assert pack(SID, RECORD, age_seconds=60)[:1] == b"2"


@pytest.mark.parametrize(("seconds", "milliseconds"), [(0, 0), (-5, 0), (1.5, 1500), (1e30, 2**47)])
def test_holds_its_age_in_milliseconds(seconds: float, milliseconds: int) -> None:
    assert int.from_bytes(pack(SID, RECORD, age_seconds=seconds)[15:21], "big") == milliseconds


def test_a_record_that_is_read_has_its_revision() -> None:
    packed = pack(SID, RECORD, age_seconds=60)
    assert unpack(SID, packed).revision == revision_of(packed) == packed[1:9]


def test_has_a_new_revision_each_time() -> None:
    assert pack(SID, RECORD, age_seconds=60)[1:9] != pack(SID, RECORD, age_seconds=60)[1:9]


def test_every_changed_byte_but_those_of_revision_and_times_is_noticed() -> None:
    packed = pack(SID, RECORD, age_seconds=60)
    for place in (0, *range(21, len(packed))):
        changed = bytearray(packed)
        changed[place] ^= 1
        with pytest.raises(RecordError):
            unpack(SID, bytes(changed))


@pytest.mark.parametrize("length", range(60))
def test_a_record_cut_short_is_refused(length: int) -> None:
    with pytest.raises(RecordError):
        unpack(SID, pack(SID, RECORD, age_seconds=60)[:length])


def test_a_record_of_another_session_is_refused() -> None:
    with pytest.raises(RecordError):
        unpack(sid_of("another session key"), pack(SID, RECORD, age_seconds=60))


def test_a_record_under_an_earlier_secret_key_is_read(settings) -> None:
    packed = pack(SID, RECORD, age_seconds=60)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new", [settings.SECRET_KEY]
    assert read(SID, packed) == RECORD


def test_a_record_under_an_unknown_secret_key_is_refused(settings) -> None:
    packed = pack(SID, RECORD, age_seconds=60)
    settings.SECRET_KEY = "new"
    with pytest.raises(RecordError):
        unpack(SID, packed)


def test_a_user_id_too_long_for_the_header_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 255 bytes; this one has 256"):
        pack(SID, Record("é" * 128, Client(), b""), age_seconds=60)
