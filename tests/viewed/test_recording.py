"""What the middleware records of the items that visitors view, and what that takes."""

from typing import Any

import pytest
from django.http import HttpResponse
from django.test import AsyncClient, Client

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from testproject.servers import free_port
from testproject.shop.models import Product
from tests.helpers.outages import caches, full
from tests.helpers.site import MIDDLEWARE, VIEWED_VIEWS
from tests.helpers.store import drive, have_agreed, keyspace, make_due, make_older, stored
from tests.helpers.visitors import Browser, items_of

pytestmark = pytest.mark.django_db


class Visitor(Browser):
    """Somebody with a browser, whose session is looked at."""

    def ask(self, method: str, path: str, **headers: str) -> HttpResponse:
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._ask(getattr(self.client, method), path, headers=headers)

    @property
    def session(self) -> SessionStore:
        return SessionStore(self.cookie)

    @property
    def items(self) -> list[str]:
        return items_of(self)


@pytest.fixture(params=[Client, AsyncClient], ids=["WSGI", "ASGI"])
def visitor(request, settings) -> Visitor:
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    settings.MIDDLEWARE = MIDDLEWARE
    settings.REDSESS = {"VIEWED_VIEWS": VIEWED_VIEWS}
    return Visitor(request.param())


@pytest.fixture
def guest(visitor, new_session) -> Visitor:
    visitor.cookie = new_session(colour="blue").session_key
    return visitor


BESIDE = {"plain": 0, "reads": 1, "areads": 1, "writes": 2, "cycles": 2}
"""The round trips of each view of an item but for that which records the view."""


def item_of_another_partition(sid: str) -> str:
    """Name an item whose views are counted in another partition than that of the session."""
    space = keyspace()
    return next(item for item in map(str, range(100)) if space.of_item(item) != space.of_sid(sid))


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize(
    "view", ["plain", "reads", "areads", "writes", "cycles", "shown", "rendered-late", "marked", "records", "arecords"]
)
def test_a_page_of_an_item_is_recorded_once(guest, view: str) -> None:
    for number in range(3):
        assert guest.get(f"/items/{view}/{number}").status_code == 200
    assert guest.items == ["2", "1", "0"]
    assert {entry.item: entry.views for entry in viewed.popular()} == {"0": 1, "1": 1, "2": 1}


def test_a_function_that_names_what_the_view_found_records_nothing_that_a_visitor_makes_up(guest) -> None:
    product = Product.objects.create(slug="lamp", name="Lamp")
    for made_up in ("", "lamp2", "LAMP ", "1", *(f"lamp-{number}" for number in range(20))):
        assert guest.get(f"/items/found?product={made_up}").status_code == 404
    assert viewed.total()[:2] == (0, 0)
    assert guest.get("/items/found?product=lamp").status_code == 200
    assert viewed.popular() == [(str(product.pk), 1)]


def test_a_function_that_fails_is_logged_without_the_session_key_and_the_page_is_shown(guest, settings, caplog) -> None:
    # The URL of the other lacks the keyword.
    settings.REDSESS = {"VIEWED_VIEWS": {**VIEWED_VIEWS, "plain": "slug"}}
    assert [guest.get(path).content for path in ("/items/fails", "/items/plain/lamp")] == [b"yes", b"lamp"]
    assert "ZeroDivisionError" in caplog.text
    assert "has no keyword 'slug'" in caplog.text
    session = guest.session
    # Compared first: pytest would print the key.
    is_shown = str(session.session_key) in caplog.text or str(session.sid) in caplog.text
    assert not is_shown


@pytest.mark.parametrize("item", ["x" * 65, "x" * 1_000_000, "%ED%A0%80" * 30])
@pytest.mark.parametrize("view", ["plain/", "asked?item="])
def test_what_can_be_no_item_is_logged_and_the_page_is_shown(guest, caplog, view: str, item: str) -> None:
    assert guest.get(f"/items/{view}{item}").status_code == 200
    assert len(caplog.records) == 1
    assert viewed.popular() == []
    # Strange ones are items.
    assert guest.get("/items/asked?item=nul%00%0D%0A%3Cb%3E").status_code == 200
    assert guest.items == ["nul\0\r\n<b>"]


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        *(("get", f"/items/answers/{status}/lamp", {}, status) for status in (201, 204, 206, 301, 304, 404, 500)),
        *((method, "/items/plain/lamp", {}, 200) for method in ("head", "post", "put", "options")),
        # What a browser fetches ahead.
        ("get", "/items/plain/lamp", {"sec_purpose": "prefetch"}, 200),
        ("get", "/items/plain/lamp", {"sec_purpose": "prefetch;prerender"}, 200),
        ("get", "/items/plain/lamp", {"purpose": "prefetch"}, 200),
        ("get", "/items/plain/lamp", {"x_moz": "prefetch"}, 200),
    ],
)
def test_only_a_get_by_a_visitor_that_is_answered_with_200_is_recorded(
    guest, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    assert guest.ask(method, path, **headers).status_code == status
    assert (guest.items, viewed.count("lamp")) == ([], 0)


def test_what_nobody_asked_for_by_hand_is_not_recorded(guest, settings) -> None:
    settings.REDSESS = {"VIEWED_VIEWS": VIEWED_VIEWS, "PASSIVE_PATHS": ["/items/reads/"]}
    for path in ("/items/polls/lamp", "/items/reads/lamp", "/items/unnamed/lamp", "/items/asked"):
        assert guest.get(path).status_code == 200
    guest.ask("get", "/items/plain/lamp", x_session_passive="1")
    assert viewed.popular() == []


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("view", ["plain", "reads", "writes", "ends"])
def test_a_session_that_has_expired_or_that_the_view_ends_views_nothing(guest, redis, view: str) -> None:
    if view != "ends":
        make_due(redis, guest.session.sid)
    assert guest.get(f"/items/{view}/lamp").status_code == 200
    # A view that writes begins another session.
    assert viewed.count("lamp") == (1 if view == "writes" else 0)


@pytest.mark.parametrize(
    ("view", "saves_always", "others"),
    [*((view, False, others) for view, others in BESIDE.items()), ("plain", True, 2)],
)
def test_a_view_is_one_round_trip(guest, settings, round_trips, view: str, saves_always: bool, others: int) -> None:
    settings.SESSION_SAVE_EVERY_REQUEST = saves_always
    guest.get(f"/items/{view}/lamp")
    round_trips()
    response = guest.get(f"/items/{view}/vase")
    assert round_trips() == 1 + others
    assert guest.items == ["vase", "lamp"]
    # A page that reads no session stays cacheable.
    assert ("Vary" in response) == (others > 0)


def test_a_view_is_one_round_trip_where_a_session_begins(visitor, settings, round_trips) -> None:
    have_agreed()
    settings.REDSESS = {"VIEWED_VIEWS": VIEWED_VIEWS, "VIEWED_GUESTS": True}
    for view, every_request in (("writes", False), ("plain", False), ("plain", True)):
        settings.SESSION_SAVE_EVERY_REQUEST = every_request
        visitor.client.cookies.clear()
        before = viewed.count("lamp")
        round_trips()
        visitor.get(f"/items/{view}/lamp")
        assert round_trips() == 2
        assert (visitor.items, viewed.count("lamp")) == (["lamp"], before + 1)


@pytest.mark.parametrize("partitions", [4], indirect=True)
@pytest.mark.parametrize("view", ["plain", "reads", "writes"])
def test_a_view_takes_one_more_where_another_partition_counts_the_item(
    partitions: int, guest, round_trips, view: str
) -> None:
    item = item_of_another_partition(guest.session.sid)
    guest.get(f"/items/{view}/{item}")
    round_trips()
    guest.get(f"/items/{view}/{item}")
    assert round_trips() == BESIDE[view] + 2
    assert (guest.items, viewed.count(item)) == ([item], 2)


def test_a_view_notes_that_the_session_was_seen_prolongs_it_and_sends_a_sliding_cookie_again(
    guest, settings, redis
) -> None:
    settings.REDSESS = {"VIEWED_VIEWS": VIEWED_VIEWS, "SLIDING": True}
    assert "sessionid" not in guest.get("/items/plain/lamp").cookies
    seconds = settings.SESSION_COOKIE_AGE // 5
    make_older(redis, guest.session.sid, seconds)
    before = online.get(guest.session.sid)
    response = guest.get("/items/plain/lamp")
    after = online.get(guest.session.sid)
    assert (after.last_seen_at - before.last_seen_at).total_seconds() >= seconds - 10
    assert (after.expires_at - before.expires_at).total_seconds() >= seconds
    assert response.cookies["sessionid"].value == guest.session.session_key
    assert response["Vary"] == "Cookie"
    # Not one that ends with the browser.
    session = guest.session
    session["_session_expiry"] = 0
    session.save()
    make_older(redis, session.sid, seconds)
    assert "sessionid" not in guest.get("/items/plain/lamp").cookies


def guests_get_sessions(settings: Any, **more: Any) -> None:
    settings.REDSESS = {"VIEWED_VIEWS": VIEWED_VIEWS, "VIEWED_GUESTS": True, **more}


@pytest.mark.parametrize("view", ["plain", "reads", "records", "arecords"])
def test_a_visitor_without_a_session_gets_none_for_a_view(visitor, redis, view: str) -> None:
    response = visitor.get(f"/items/{view}/lamp")
    assert "sessionid" not in response.cookies
    assert redis.keys() == []


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("view", ["plain", "reads", "areads", "writes", "records", "arecords"])
def test_a_guest_gets_a_session_for_a_view_where_the_site_wants_it(visitor, settings, redis, view: str) -> None:
    guests_get_sessions(settings)
    response = visitor.get(f"/items/{view}/lamp")
    assert response.cookies["sessionid"].value
    assert "Cookie" in response["Vary"]
    visitor.get(f"/items/{view}/vase")
    assert stored(redis) == 1
    assert visitor.items == ["vase", "lamp"]
    assert (viewed.count("lamp"), viewed.count("vase")) == (1, 1)


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("view", ["plain", "reads", "writes"])
def test_a_guest_whose_session_has_expired_gets_another(guest, settings, redis, view: str) -> None:
    guests_get_sessions(settings)
    before = guest.session.sid
    make_due(redis, before)
    guest.get(f"/items/{view}/lamp")
    assert guest.session.sid != before
    assert guest.items == ["lamp"]


def test_only_what_is_recorded_begins_a_session(visitor, settings, redis) -> None:
    guests_get_sessions(settings)
    visitor.get("/items/unnamed/lamp")
    visitor.get("/items/answers/404/lamp")
    visitor.ask("get", "/items/plain/lamp", sec_purpose="prefetch")
    visitor.get(f"/items/plain/{'x' * 65}")
    visitor.ask("head", "/items/plain/lamp")
    assert redis.keys() == []
    assert "sessionid" not in visitor.client.cookies


def test_a_rotated_cookie_gets_no_session_for_a_view(guest, settings, redis) -> None:
    guests_get_sessions(settings)
    old_key = guest.session.session_key
    guest.get("/items/cycles/lamp")
    guest.cookie = old_key
    for view in ("plain", "reads", "records"):
        assert "sessionid" not in guest.get(f"/items/{view}/vase").cookies
    assert (stored(redis), viewed.count("vase")) == (1, 0)


def test_a_noted_view_is_recorded_once(partitions: int, guest) -> None:
    session = guest.session
    item = item_of_another_partition(session.sid) if partitions > 1 else "lamp"
    session.note_view(item)
    session["colour"] = "red"
    session.save()
    assert viewed.popular() == []
    drive(viewed.record_noted_view(session))
    drive(viewed.record_noted_view(session))
    assert (guest.items, viewed.count(item)) == ([item], 1)


@pytest.mark.parametrize("view", ["writes", "cycles"])
def test_a_request_whose_save_is_refused_views_nothing(guest, meanwhile, view: str) -> None:
    sid = guest.session.sid
    meanwhile(lambda: online.end(sid))
    assert guest.get(f"/items/{view}/lamp").status_code == 400
    assert viewed.popular() == []


@pytest.mark.parametrize("view", ["plain", "reads"])
def test_a_full_server_shows_pages_and_records_nothing(guest, redis, view: str) -> None:
    with full(redis):
        assert guest.get(f"/items/{view}/lamp").status_code == 200
    assert guest.items == []


def test_an_outage_fails_no_page_that_needs_no_session(guest, settings, caplog) -> None:
    settings.CACHES = caches(f"redis://127.0.0.1:{free_port()}/0")
    for more in ({}, {"VIEWED_GUESTS": True}):
        settings.REDSESS = {"VIEWED_VIEWS": VIEWED_VIEWS, **more}
        for _ in range(2):
            response = guest.get("/items/plain/lamp")
            assert (response.status_code, response.content, list(response.cookies)) == (200, b"lamp", [])
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_djangos_own_session_middleware_records_too(guest, settings) -> None:
    settings.MIDDLEWARE = ["django.contrib.sessions.middleware.SessionMiddleware", *MIDDLEWARE[1:]]
    for view in ("plain", "reads", "writes"):
        assert guest.get(f"/items/{view}/{view}").status_code == 200
    assert guest.items == ["writes", "reads", "plain"]
    assert viewed.total()[:2] == (3, 3)


def test_a_session_of_another_engine_is_left_alone(visitor, settings) -> None:
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
    assert visitor.get("/items/writes/lamp").status_code == 200
    assert visitor.get("/items/plain/lamp").status_code == 200
