"""The page of an outage is in one language, and times since then are whole phrases in it."""

from datetime import timedelta

import pytest
from django.test import RequestFactory
from django.utils.translation import override

from django_redsess.online import labels
from django_redsess.responses import unavailable_response

pytestmark = pytest.mark.unit


def test_the_page_of_an_outage_says_in_which_language_it_is() -> None:
    for language, shown, words in (("it", "en", "Not"), ("de", "de", "Zurzeit nicht"), ("en-gb", "en-gb", "Not")):
        with override(language):
            page = unavailable_response(RequestFactory().get("/")).text
        assert f'<html lang="{shown}" dir="ltr">' in page
        assert f"<h1>{words}" in page


@pytest.mark.parametrize(
    ("time", "ago", "coming"),
    [
        (timedelta(minutes=1), "1 minute ago", "in 1 minute"),
        (timedelta(minutes=59, seconds=59), "59 minutes ago", "in 59 minutes"),
        (timedelta(hours=1), "1 hour ago", "in 1 hour"),
        (timedelta(hours=23, minutes=59), "23 hours ago", "in 23 hours"),
        (timedelta(days=1, hours=23), "1 day ago", "in 1 day"),
        (timedelta(days=13), "13 days ago", "in 13 days"),
        (timedelta(days=60, hours=23), "60 days ago", "in 60 days"),
        (timedelta(days=61), "2 months ago", "in 2 months"),
        (timedelta(days=364), "11 months ago", "in 11 months"),
        (timedelta(days=365), "1 year ago", "in 1 year"),
        (timedelta(days=3650), "10 years ago", "in 10 years"),
    ],
)
def test_a_time_is_told_in_its_largest_unit(time: timedelta, ago: str, coming: str) -> None:
    assert in_words(-time) == ago
    # Time passes between the two readings of the clock.
    assert in_words(time + timedelta(seconds=0.5)) == coming


@pytest.mark.parametrize(
    ("language", "days", "words"),
    [
        # Another case than after a number alone: "2 Monate".
        ("de", -70, "vor 2 Monaten"),
        ("de", 800, "in 2 Jahren"),
        # The form for two is a word without a number.
        ("ar", -2, "قبل يومين"),
        ("ar", -800, "قبل سنتين"),
        ("ar", -3, "قبل 3 أيام"),
        ("fr", -800, "il y a 2 ans"),
        ("ja", -2, "2日前"),
    ],
)
def test_the_form_of_a_unit_fits_the_phrase(language: str, days: int, words: str) -> None:
    with override(language):
        assert in_words(timedelta(days=days, seconds=0.5 if days > 0 else 0)) == words


def in_words(time: timedelta) -> str:
    """Return what pages say of a time that is so far from now."""
    shown = str(labels.when(labels.known_server_time() + time))
    return shown.partition(">")[2].partition("<")[0].replace("\xa0", " ")
