"""Records of a user's session and of a guest's."""

from django_redsess.session.client import Client, pack_client
from django_redsess.session.record import Record
from django_redsess.transport.keys import sid_of

SID = sid_of("some session key")
AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
CLIENT = Client("192.0.2.1", AGENT)
RECORD = Record("7:ä b", 1_790_000_000_123, 1_791_209_600, 1_209_600, pack_client(CLIENT), b'{"basket": "\n\\u0000"}')
GUEST = Record("", 0, 1_791_209_600, 0, b"", b"{}")
