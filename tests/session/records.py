"""Records of a user's session and of a guest's."""

from hypothesis import strategies as some

from django_redsess.session.binding import Binding
from django_redsess.session.client import Client, pack_client
from django_redsess.session.record import Record
from django_redsess.transport.keys import sid_of

SID = sid_of("some session key")
AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
CLIENT = Client("192.0.2.1", AGENT)
RECORD = Record("7:ä b", 1_790_000_000_123, 1_791_209_600, 1_209_600, pack_client(CLIENT), b'{"basket": "\n\\u0000"}')
BINDING = Binding(b"\x00binding", 1_790_000_001_000, 1_790_000_601_000, b"\x02" + b"\x7f" * 32)
BOUND_RECORD = RECORD._replace(binding=BINDING.pack())
GUEST = Record("", 0, 1_791_209_600, 0, b"", b"{}")

bindings = some.just(b"") | some.builds(
    Binding,
    some.binary(min_size=8, max_size=8),
    some.integers(0, 2**48 - 1),
    some.integers(0, 2**48 - 1),
    some.sampled_from([0, 33, 256, 512]).flatmap(lambda size: some.binary(min_size=size, max_size=size)),
).map(Binding.pack)
"""Packed bindings, with keys of ES256 and RS256 and with none."""
