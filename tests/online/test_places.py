"""Places beside addresses: what pages show, how often the site's function is asked, and Django's GeoIP2."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils.translation import gettext_lazy, override
from mmdb_writer import MMDBWriter
from netaddr import IPSet

from django_redsess.contrib import geoip2 as public_places
from django_redsess.online import places
from tests.admin.visits import from_place
from tests.helpers.admin_pages import CONFIRM, LIST, page_of
from tests.helpers.store import text_of

LYON, OSLO = "81.2.69.160", "2a02:d280::7"

ASKED: list[list[str]] = []


def towns(addresses: list[str]) -> dict[str, str]:
    """The site's function."""
    ASKED.append(sorted(addresses))
    return {LYON: "Lyon, <France>", OSLO: "Oslo"}


@pytest.fixture(autouse=True)
def known(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known yet, and the settings name a function."""
    settings.REDSESS = {**settings.REDSESS, "PLACES": f"{__name__}.towns"}
    monkeypatch.setattr(places, "_kept", OrderedDict())
    monkeypatch.setattr(places, "_failing", set())
    ASKED.clear()


@pytest.fixture
def sids(db: None, new_session: Any) -> list[str]:
    """Alice's sessions, at three addresses."""
    alice = User.objects.create_user("alice")
    return [from_place(new_session(str(alice.pk)), address).sid for address in (LYON, OSLO, "10.1.2.3")]


@pytest.mark.usefixtures("partitions")
def test_the_lists_and_pages_show_places_and_ask_for_all_of_a_page_together(admin_client, sids) -> None:
    page = admin_client.get(LIST).text
    assert "Lyon, &lt;France&gt;" in page
    assert "Oslo" in page
    assert "Lyon, &lt;France&gt;" in admin_client.get(page_of(sids[0])).text
    # The page of another session has those of the user's other ones, too.
    assert "Oslo" in admin_client.get(page_of(sids[2])).text
    here = Client()
    here.force_login(User.objects.get(username="alice"))
    own = here.get(reverse("django_redsess:sessions")).text
    assert "Lyon, &lt;France&gt;" in own
    [together] = ASKED
    assert together == sorted([LYON, OSLO, "10.1.2.3"])


def test_the_questions_before_sessions_end_show_places(admin_client, sids) -> None:
    page = admin_client.get(CONFIRM, {"user": User.objects.get(username="alice").pk}).text
    assert ("Lyon, &lt;France&gt;" in page, "Oslo" in page, len(ASKED)) == (True, True, 1)
    assert "Oslo" in admin_client.get(CONFIRM, {"sid": sids[1]}).text
    here = Client()
    here.force_login(User.objects.get(username="alice"))
    assert "Oslo" in here.get(reverse("django_redsess:not_me_device", args=[sids[1]])).text


def test_a_page_asks_once_for_what_is_new(admin_client, sids, new_session) -> None:
    for path in (page_of(sids[0]), LIST):
        admin_client.get(path)
    assert len(ASKED) == 1
    from_place(new_session(str(User.objects.get(username="alice").pk)), "192.0.2.1")
    for _ in range(2):
        admin_client.get(LIST)
    assert ASKED[1:] == [["192.0.2.1"]]


def test_without_the_setting_nothing_is_asked(admin_client, sids, settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "PLACES": None}
    assert "Oslo" not in admin_client.get(LIST).text
    assert (ASKED, places.find_places([LYON])) == ([], {})


def fails(addresses: list[str]) -> dict[str, str]:
    ASKED.append(addresses)
    raise OSError("The service of places does not answer.")


def test_a_function_that_fails_shows_none_and_is_logged_once(admin_client, sids, settings, caplog, monkeypatch) -> None:
    monkeypatch.setitem(globals(), "towns", fails)
    for _ in range(3):
        assert LYON in admin_client.get(LIST).text
    assert len(ASKED) == 3, "it may work again"
    assert [record.levelname for record in caplog.records if record.name == "django_redsess"] == ["ERROR"]
    monkeypatch.undo()
    monkeypatch.setitem(globals(), "towns", lambda addresses: {LYON: "Lyon"})
    settings.REDSESS = {**settings.REDSESS, "PLACES": f"{__name__}.towns"}
    assert "Lyon" in admin_client.get(LIST).text
    monkeypatch.setitem(globals(), "towns", fails)
    places.find_places(["192.0.2.200"])
    assert len(caplog.records) == 2, "the next failure is logged again"


@pytest.mark.unit
@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ({LYON: None}, {}),
        ({LYON: 7}, {}),
        ({LYON: ""}, {}),
        ({}, {}),
        ({LYON: "Lyon", "192.0.2.99": "nobody has asked"}, {LYON: "Lyon"}),
        ({LYON: gettext_lazy("Lyon")}, {LYON: "Lyon"}),
        ({LYON: "Ly\x1b[31mon\n"}, {LYON: "Ly [31mon"}),
        ({LYON: text_of(500)}, {LYON: text_of(500)[: places.PLACE_MAX]}),
        (None, {}),
        (["Lyon"], {}),
    ],
)
def test_what_is_no_text_is_no_place(monkeypatch, said, shown) -> None:
    monkeypatch.setitem(globals(), "towns", lambda addresses: said)
    assert places.find_places([LYON, ""]) == shown


@pytest.mark.unit
def test_places_are_kept_for_a_while_for_each_language_and_not_without_end(monkeypatch) -> None:
    monkeypatch.setattr(places, "KEPT_MAX", 2)
    for _ in range(2):
        places.find_places([LYON])
    with override("fr"):
        places.find_places([LYON])
    assert ASKED == [[LYON]] * 2
    # The eldest one goes.
    places.find_places([OSLO])
    places.find_places([LYON])
    assert ASKED[2:] == [[OSLO], [LYON]]


@pytest.mark.unit
def test_places_are_kept_for_an_hour(monkeypatch) -> None:
    at = [1000.0]
    monkeypatch.setattr(places, "monotonic", lambda: at[0])
    for seconds in (0, 3599, 2):
        at[0] += seconds
        places.find_places(["192.0.2.4"])
    assert ASKED == [["192.0.2.4"]] * 2


def named(name: str) -> dict[str, dict[str, str]]:
    return {"names": {"en": name}}


@pytest.fixture(params=["City", "Country"])
def database(request: pytest.FixtureRequest, settings: Any, tmp_path: Path) -> Iterator[str]:
    """A database of MaxMind's format, and what its kind is."""
    writer = MMDBWriter(ip_version=6, database_type=f"GeoLite2-{request.param}", ipv4_compatible=True)
    france = {"country": {"iso_code": "FR", **named("France")}}
    town = {"city": named("Lyon")} if request.param == "City" else {}
    writer.insert_network(IPSet(["81.2.69.0/24", "10.0.0.0/8"]), {**france, **town})
    writer.insert_network(IPSet(["2a02:d280::/32"]), {"country": {"iso_code": "NO", **named("Norway")}})
    writer.to_db_file(str(tmp_path / f"GeoLite2-{request.param}.mmdb"))
    settings.GEOIP_PATH = tmp_path
    settings.REDSESS = {"PLACES": "django_redsess.contrib.geoip2.places"}
    yield request.param
    public_places._database.cache_clear()


@pytest.mark.unit
def test_djangos_geoip2_names_places_by_its_database(database: str) -> None:
    france = "Lyon, France" if database == "City" else "France"
    asked = [LYON, OSLO, "10.1.2.3", "127.0.0.1", "9.9.9.9", "unknown", "::ffff:10.1.2.3"]
    assert places.find_places(asked) == {LYON: france, OSLO: "Norway"}


@pytest.mark.unit
def test_without_a_database_no_place_is_shown(settings, caplog) -> None:
    settings.REDSESS = {"PLACES": "django_redsess.contrib.geoip2.places"}
    assert places.find_places([LYON]) == {}
    assert "GEOIP_PATH" in caplog.text
