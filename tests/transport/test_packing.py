"""How commands are packed."""

import pytest

from django_redsess.transport import packing, scripts

pytestmark = pytest.mark.unit


def test_a_command_is_packed_as_the_server_reads_it() -> None:
    packed = b"*4\r\n$4\r\nHGET\r\n$2\r\n\r\n\r\n$2\r\n\xc3\xa9\r\n$2\r\n12\r\n"
    assert packing.pack_command("HGET", b"\r\n", "\xe9", 12) == packed


def test_commands_are_taken_apart_as_they_were_put_together() -> None:
    packed = [
        packing.pack_command("TIME"),
        packing.pack_command("HGET", b"*2\r\n$4\r\n", ""),
        packing.pack_script_call(scripts.AGREEMENT, ("a key",), ("\xe9\r\n", 12)),
    ]
    assert packing.split_commands(b"".join(packed)) == packed
    assert packing.split_commands(b"") == []


def test_a_text_stands_in_place_of_a_digest_and_nothing_else_is_changed() -> None:
    script = scripts.AGREEMENT
    beside = packing.pack_command("GET", script.digest)
    by_digest = packing.pack_script_call(script, ("a key",), (script.digest,))
    by_text = packing.pack_script_call(script, ("a key",), (script.digest,), by_digest=False)
    assert packing.with_text(beside + by_digest + beside, script) == beside + by_text + beside
