import pytest

from django_redsess.session.addresses import address_of
from django_redsess.session.networks import place_of, place_of_packed
from django_redsess.session.record import Client, client_packed


@pytest.mark.parametrize("address", ["", "0.0.0.0", "198.51.100.7", "255.255.255.255", "::", "2001:db8::7", "ffff::1"])
def test_a_packed_address_has_the_place_of_its_text(address: str) -> None:
    for user_agent in ("", "Mozilla"):
        assert place_of_packed(address_of(client_packed(Client(address, user_agent)))) == place_of(address)
