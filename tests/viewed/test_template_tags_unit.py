"""The template tags where no server is asked."""

from __future__ import annotations

from typing import Any

import pytest
from django.template import TemplateSyntaxError

from tests.helpers.tags import ITEMS, RECENT, render

pytestmark = pytest.mark.unit


def test_without_a_request_there_is_nothing() -> None:
    assert render(RECENT + ITEMS) == ""


def test_without_a_request_a_developer_is_told_what_to_do(settings: Any) -> None:
    settings.DEBUG = True
    with pytest.warns(UserWarning, match=r"django\.template\.context_processors\.request"):
        render(RECENT + ITEMS)


def test_a_session_of_another_engine_has_viewed_nothing() -> None:
    from django.contrib.sessions.backends.signed_cookies import SessionStore as OtherSession

    assert render(RECENT + ITEMS, OtherSession()) == ""


@pytest.mark.parametrize("tag", ["recently_viewed", "most_viewed"])
def test_a_tag_needs_a_number(tag: str) -> None:
    with pytest.raises(TemplateSyntaxError, match="did not receive value"):
        render(f"{{% load viewed_items %}}{{% {tag} as items %}}")
