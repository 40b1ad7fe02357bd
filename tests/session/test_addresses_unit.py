import pytest

from django_redsess.session.client_address import address_of, address_score
from django_redsess.session.record import Client, client_packed

pytestmark = pytest.mark.unit

PLACES = {
    "0.0.0.0": 0,
    "198.51.100.7": 3_325_256_711,
    "255.255.255.255": 2**32 - 1,
    "::": 2**52,
    "2001:db8::7": 2**52 + (0x2001_0DB8 << 20),
    "ffff::1": 2**52 + (0xFFFF << 36),
}


@pytest.mark.parametrize("user_agent", ["", "Mozilla"])
def test_the_address_in_a_record_has_its_place(user_agent: str) -> None:
    places = {address: address_score(address_of(client_packed(Client(address, user_agent)))) for address in PLACES}
    assert places == PLACES
    assert address_of(client_packed(Client("", user_agent))) == b""
