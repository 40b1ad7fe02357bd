"""How commands are packed, and what a clock knows."""

from __future__ import annotations

from django_redsess.transport import packing
from django_redsess.transport.clock import Clock


def test_a_command_is_packed_as_the_server_reads_it() -> None:
    assert (
        packing.command("HGET", b"\r\n", "\xe9", 12)
        == b"*4\r\n$4\r\nHGET\r\n$2\r\n\r\n\r\n$2\r\n\xc3\xa9\r\n$2\r\n12\r\n"
    )


def test_a_clock_that_was_never_told_knows_nothing() -> None:
    assert Clock().now() is None
