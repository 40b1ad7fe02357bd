from typing import Any

import pytest
from django.contrib.sessions.backends.signed_cookies import SessionStore as OtherSession
from django.template import Context, engines
from django.test import RequestFactory

from django_redsess import viewed
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from testproject.servers import free_port
from tests.helpers.outages import caches
from tests.helpers.store import have_views

RECENT = "{% load viewed_items %}{% recently_viewed 3 as items %}"
MOST = "{% load viewed_items %}{% most_viewed 2 as items %}"
ITEMS = "{% for entry in items %}{{ entry.item }} {% endfor %}"
OBJECTS = "{% for entry in items %}{{ entry.object }} {% endfor %}"


def render(template: str, session: Any = None, **context: Any) -> str:
    if session is not None:
        context["request"] = RequestFactory().get("/")
        context["request"].session = session
    text: str = engines["django"].from_string(template).template.render(Context(context))
    return text


CALLS: list[list[str]] = []


def find(items: list[str]) -> dict[str, str]:
    """Find the objects of all items, except that those which begin with "gone" are no more."""
    CALLS.append(items)
    return {item: f"the {item}" for item in items if not item.startswith("gone")}


@pytest.fixture
def resolving(settings) -> list[list[str]]:
    """Have objects looked up; return the list of what is asked for."""
    settings.REDSESS = {"VIEWED_RESOLVE": f"{__name__}.find"}
    CALLS.clear()
    return CALLS


@pytest.fixture
def session(new_session, settings) -> SessionStore:
    """A session that viewed four items."""
    settings.REDSESS = {}
    session = new_session()
    for item in ("lamp", "vase", "bowl", "cup"):
        viewed.record(session, item)
    return session


@pytest.mark.usefixtures("partitions")
def test_what_this_visitor_viewed_comes_newest_first_escaped_and_without_what_the_page_shows(
    session,
) -> None:
    assert render(RECENT + ITEMS, session) == "cup bowl vase "
    template = "{% load viewed_items %}{% recently_viewed 3 leave_out=shown as items %}"
    assert render(template + ITEMS, session, shown="bowl") == "cup vase lamp "
    viewed.record(session, 5)
    assert render(template + ITEMS, session, shown=5) == "cup bowl vase "
    viewed.record(session, "<script>")
    assert render(template + ITEMS, session, shown=None) == "&lt;script&gt; 5 cup "


@pytest.mark.usefixtures("partitions")
def test_what_is_viewed_most_comes_with_its_views(redis, settings) -> None:
    settings.REDSESS = {}
    have_views(redis, {"lamp": 3, "vase": 5, "bowl": 4})
    template = MOST + "{% for entry in items %}{{ entry.item }}:{{ entry.views }} {% endfor %}"
    assert render(template) == "vase:5 bowl:4 "


def test_an_item_that_is_gone_is_left_out_and_another_takes_its_place(session, resolving, redis) -> None:
    viewed.record(session, "gone")
    assert render(RECENT + OBJECTS, session) == "the cup the bowl the vase "
    have_views(redis, {"gone": 100, "gone too": 200, "lamp": 10, "vase": 5})
    assert render(MOST + OBJECTS) == "the lamp the vase "
    assert len(resolving) == 2


@pytest.mark.parametrize("tag", [RECENT, MOST])
def test_a_tag_is_one_round_trip(session, commands, tag: str) -> None:
    render(tag + ITEMS, session)
    commands()
    render(tag + ITEMS + ITEMS, session)
    assert commands()["evalsha"] == 1


def test_in_an_outage_pages_lack_what_is_viewed_most_and_nobody_is_told_that_they_viewed_nothing(
    session, settings
) -> None:
    settings.CACHES = caches(f"redis://127.0.0.1:{free_port()}/0")
    with pytest.raises(SessionStoreUnavailable):
        render(RECENT + ITEMS, session)
    assert render(MOST + ITEMS) == ""


@pytest.mark.parametrize("template", [RECENT, MOST])
def test_where_nothing_was_viewed_there_is_nothing(settings, resolving, template: str) -> None:
    assert render(template + ITEMS + "{{ items|length }}", SessionStore()) == "0"
    assert resolving == []


@pytest.mark.unit
def test_without_a_request_there_is_nothing_and_a_developer_is_told_what_to_do(settings) -> None:
    assert render(RECENT + ITEMS) == render(RECENT + ITEMS, OtherSession()) == ""
    settings.DEBUG = True
    with pytest.warns(UserWarning, match=r"django\.template\.context_processors\.request"):
        render(RECENT + ITEMS)
