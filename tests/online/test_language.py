"""The page of an outage is in one language."""

import pytest
from django.test import RequestFactory
from django.utils.translation import override

from django_redsess.middleware import unavailable

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("language", "shown", "words"),
    [("it", "en", "Not available"), ("de", "de", "Zurzeit nicht"), ("en-gb", "en-gb", "Not")],
)
def test_the_page_of_an_outage_says_in_which_language_it_is(language: str, shown: str, words: str) -> None:
    with override(language):
        page = unavailable(RequestFactory().get("/")).text
    assert f'<html lang="{shown}" dir="ltr">' in page
    assert f"<h1>{words}" in page
