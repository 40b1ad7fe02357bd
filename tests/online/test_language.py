"""The page of an outage is in one language."""

import pytest
from django.test import RequestFactory
from django.utils.translation import override

from django_redsess.responses import unavailable_response

pytestmark = pytest.mark.unit


def test_the_page_of_an_outage_says_in_which_language_it_is() -> None:
    for language, shown, words in (("it", "en", "Not"), ("de", "de", "Zurzeit nicht"), ("en-gb", "en-gb", "Not")):
        with override(language):
            page = unavailable_response(RequestFactory().get("/")).text
        assert f'<html lang="{shown}" dir="ltr">' in page
        assert f"<h1>{words}" in page
