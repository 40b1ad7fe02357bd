"""The shop as its visitors see it, and browsers in many places: for the pictures of the documentation."""

from tests.helpers.site.settings.gallery import *  # noqa: F403

MIDDLEWARE = ["tests.helpers.site.addresses.address_of_the_header", *MIDDLEWARE]  # noqa: F405
REDSESS = {**REDSESS, "PLACES": "tests.helpers.site.addresses.places"}  # noqa: F405
