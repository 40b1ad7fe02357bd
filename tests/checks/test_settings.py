"""What is found wrong with REDSESS and with Django's settings of sessions."""

import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.contrib.sessions.models import Session
from django.core.checks import run_checks
from django.db import models

from django_redsess import backend
from django_redsess.checks.settings import RULES, SETTING_NAMES
from django_redsess.conf import conf
from tests.helpers.checks import SetCache, found, messages
from tests.helpers.site import SESSION as OURS


class SessionStore(backend.SessionStore):
    """Makes this module a session engine."""


class PickleSerializer:
    def dumps(self, obj: object) -> bytes:
        return pickle.dumps(obj)

    def loads(self, data: bytes) -> Any:
        return pickle.loads(data)


class PackingSerializer:
    """Begins as a pickle does: so MessagePack writes an empty map."""

    def dumps(self, obj: object) -> bytes:
        return b"\x80"

    def loads(self, data: bytes) -> Any:
        return {}


class TextSerializer(PickleSerializer):
    def dumps(self, obj: object) -> Any:
        return str(obj)


class BrokenSerializer(PickleSerializer):
    def __init__(self) -> None:
        raise RuntimeError("no such key file")


def test_a_good_site_has_nothing_to_complain_about() -> None:
    assert found() == []


def test_every_setting_has_a_rule_that_its_default_keeps(settings) -> None:
    settings.REDSESS = {}
    assert sorted(RULES) == SETTING_NAMES
    assert all(rule.allows(getattr(conf, name)) for name, rule in RULES.items())


def test_an_unknown_setting_is_refused_with_the_names_allowed(settings) -> None:
    settings.REDSESS = {"MAX_SESSION": 5}
    [error] = messages()
    assert error.id == "django_redsess.E002"
    assert "'MAX_SESSION'" in error.msg
    assert error.hint.startswith("Did you mean 'MAX_SESSIONS'? The settings are ABSOLUTE_TIMEOUT, ")


@pytest.mark.parametrize(("name", "meant"), [("idle_timeout", "IDLE_TIMEOUT"), ("IDLE_TIME_OUT", "IDLE_TIMEOUT")])
def test_what_an_unknown_setting_is_most_like_is_told(settings, name: str, meant: str) -> None:
    settings.REDSESS = {name: 5}
    [error] = messages()
    assert error.hint.startswith(f"Did you mean {meant!r}? ")


@pytest.mark.parametrize("name", ["COLOUR", 5])
def test_an_unknown_setting_that_is_like_none_gets_no_guess(settings, name: object) -> None:
    settings.REDSESS = {name: 5}
    [error] = messages()
    assert error.id == "django_redsess.E002"
    assert error.hint.startswith("The settings are ")


def test_an_index_without_addresses_is_warned_of(settings) -> None:
    for how_much, ids in (("none", ["django_redsess.W033"]), ("truncated", [])):
        settings.REDSESS = {"INDEX_ADDRESSES": True, "CLIENT_ADDRESS": how_much}
        assert [each.id for each in messages()] == ids
    settings.REDSESS = {"INDEX_ADDRESSES": False, "CLIENT_ADDRESS": "none"}
    assert messages() == []


def test_more_guests_than_sessions_is_warned_of(settings) -> None:
    settings.REDSESS = {"MAX_SESSIONS": 1000, "MAX_GUESTS": 1001}
    [warning] = messages()
    assert warning.id == "django_redsess.W024"
    assert "1,001" in warning.msg
    for maximum in (1000, None):
        settings.REDSESS = {"MAX_SESSIONS": 1000, "MAX_GUESTS": maximum}
        assert messages() == []
    # What is wrong at all is told once.
    settings.REDSESS = {"MAX_SESSIONS": "1000", "MAX_GUESTS": 1001}
    assert [each.id for each in messages()] == ["django_redsess.E003"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PREFIX", ""),
        ("PREFIX", "a{b}"),
        ("PREFIX", 5),
        ("PREFIX", None),
        ("MAX_SESSIONS", 0),
        ("MAX_SESSIONS", "10"),
        ("MAX_SESSIONS", True),
        ("MAX_GUESTS", 0),
        ("MAX_GUESTS", "10"),
        ("MAX_GUESTS", True),
        ("MAX_SESSIONS_PER_USER", 0),
        ("MAX_SESSIONS_PER_USER", -1),
        ("MAX_SESSIONS_PER_USER", 2.5),
        ("MAX_SESSIONS_PER_USER", True),
        ("MAX_SESSIONS_PER_USER", "3"),
        ("MAX_SESSIONS_PER_USER", ""),
        ("MAX_SESSIONS_PER_USER", "sessions_of"),
        ("MAX_SESSIONS_PER_USER", len),
        ("MAX_SESSIONS_PER_USER", [3]),
        ("USER_SESSIONS_CEILING", 0),
        ("SESSION_LIMIT_POLICY", "end_newest"),
        ("SESSION_LIMIT_POLICY", ""),
        ("SESSION_LIMIT_POLICY", None),
        ("SESSION_LIMIT_POLICY", ["refuse"]),
        ("CONFIRM_ENDS", 1),
        ("CONFIRM_ENDS", (1,)),
        ("CONFIRM_ENDS", (0, 100)),
        ("CONFIRM_ENDS", (1, 0)),
        ("CONFIRM_ENDS", (1, 0.5)),
        ("CONFIRM_ENDS", (True, 100)),
        ("CONFIRM_ENDS", "12"),
        ("TOUCH_INTERVAL", -1),
        ("TOUCH_INTERVAL", 0.5),
        ("PARTITIONS", 0),
        ("PARTITIONS", -2),
        ("PARTITIONS", 3),
        ("PARTITIONS", 2048),
        ("PARTITIONS", 4.0),
        ("PARTITIONS", True),
        ("IDLE_TIMEOUT", 0),
        ("IDLE_TIMEOUT", 0.5),
        ("ABSOLUTE_TIMEOUT", False),
        ("ABSOLUTE_TIMEOUT", "8h"),
        ("SLIDING", 1),
        ("SLIDING", None),
        ("PASSIVE_PATHS", "/poll/"),
        ("PASSIVE_PATHS", ["poll/"]),
        ("PASSIVE_PATHS", ["/poll/", 5]),
        ("PASSIVE_PATHS", None),
        ("HIDDEN_VALUES", "oauth_token"),
        ("HIDDEN_VALUES", ["oauth_token", 5]),
        ("HIDDEN_VALUES", None),
        ("PASSIVE_HEADER", ""),
        ("PASSIVE_HEADER", None),
        ("TRUSTED_PROXIES", -1),
        ("TRUSTED_PROXIES", True),
        ("TRUSTED_PROXIES", ["10.0.0.1"]),
        ("CLIENT_ADDRESS", "hashed"),
        ("CLIENT_ADDRESS", None),
        ("CLIENT_ADDRESS", ["full"]),
        ("INDEX_ADDRESSES", 1),
        ("INDEX_ADDRESSES", "full"),
        ("VIEWED_VIEWS", ["shop:product"]),
        ("VIEWED_VIEWS", {"shop:product": 5}),
        ("VIEWED_PER_SESSION", 0),
        ("VIEWED_GUESTS", 1),
        ("VIEWED_GUESTS", None),
        ("VIEWED_RESOLVE", "products"),
        ("VIEWED_RESOLVE", len),
        ("VIEWED_RESOLVE", ""),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(settings, name: str, value: object) -> None:
    settings.REDSESS = {name: value}
    assert found() == ["E003"]
    settings.REDSESS = {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAX_SESSIONS_PER_USER", None),
        ("MAX_SESSIONS_PER_USER", 1),
        ("MAX_SESSIONS_PER_USER", 10_000),
        ("MAX_SESSIONS_PER_USER", f"{__name__}.found"),
        ("USER_SESSIONS_CEILING", None),
        ("SESSION_LIMIT_POLICY", "end_oldest"),
        ("SESSION_LIMIT_POLICY", "end_least_recent"),
        ("SESSION_LIMIT_POLICY", "refuse"),
        ("PARTITIONS", 2),
        ("PARTITIONS", 1024),
        ("IDLE_TIMEOUT", 1),
        ("ABSOLUTE_TIMEOUT", 8 * 3600),
        ("SLIDING", True),
        ("PASSIVE_PATHS", ["/poll/", "/"]),
        ("PASSIVE_PATHS", ("/poll/",)),
        ("HIDDEN_VALUES", ["oauth_token"]),
        ("HIDDEN_VALUES", ()),
        ("PASSIVE_HEADER", "X-Heartbeat"),
        ("TRUSTED_PROXIES", 2),
        ("CLIENT_ADDRESS", "truncated"),
        ("CLIENT_ADDRESS", "none"),
        ("INDEX_ADDRESSES", True),
    ],
)
def test_a_value_of_the_right_kind_is_allowed(settings, name: str, value: object) -> None:
    settings.REDSESS = {name: value}
    assert found() == []


def test_settings_that_are_no_dict_are_refused(settings) -> None:
    settings.REDSESS = ["PREFIX"]
    assert found() == ["E001"]
    settings.REDSESS = {}


@pytest.mark.parametrize("path", ["no.such.function", f"{__name__}.OURS", f"{__name__}.nothing", "no such path.x"])
def test_a_function_that_can_not_find_objects_is_refused(settings, path: str) -> None:
    settings.REDSESS = {"VIEWED_RESOLVE": path}
    [error] = messages()
    assert error.id == "django_redsess.E016"
    assert repr(path) in error.msg


def test_a_function_that_finds_objects_is_fine(settings) -> None:
    settings.REDSESS = {"VIEWED_RESOLVE": f"{__name__}.found"}
    assert found() == []


@pytest.mark.parametrize("path", ["no.such.function", f"{__name__}.OURS", f"{__name__}.nothing", "no such path.x"])
def test_a_function_that_can_not_tell_how_many_sessions_a_user_may_have_is_refused(settings, path: str) -> None:
    settings.REDSESS = {"MAX_SESSIONS_PER_USER": path}
    [error] = messages()
    assert error.id == "django_redsess.E017"
    assert "REDSESS['MAX_SESSIONS_PER_USER']" in error.msg
    assert repr(path) in error.msg


@pytest.mark.parametrize("limit", [None, 10, f"{__name__}.found"])
def test_users_without_a_limit_are_warned_of_before_a_deployment(settings, limit: object) -> None:
    settings.REDSESS = {"MAX_SESSIONS_PER_USER": limit}
    said = "django_redsess.W047" in {message.id for message in run_checks(include_deployment_checks=True)}
    assert said == (limit is None)
    assert found() == []


def test_a_pickling_serializer_is_warned_of(settings) -> None:
    settings.SESSION_SERIALIZER = f"{__name__}.PickleSerializer"
    assert found() == ["W013"]


def test_a_serializer_whose_bytes_only_begin_as_a_pickle_is_fine(settings) -> None:
    settings.SESSION_SERIALIZER = f"{__name__}.PackingSerializer"
    assert found() == []


@pytest.fixture
def visit() -> Iterator[type[models.Model]]:
    """A model with relations to Django's Session, until the test is over."""

    class Visit(models.Model):
        session = models.ForeignKey(Session, models.CASCADE)
        others = models.ManyToManyField(Session, related_name="+")

        class Meta:
            app_label = "shop"

    yield Visit
    for name in [name for name in apps.all_models["shop"] if name.startswith("visit")]:
        del apps.all_models["shop"][name]
    apps.clear_cache()


@pytest.mark.usefixtures("visit")
def test_models_with_a_relation_to_djangos_sessions_are_named(settings) -> None:
    [warning] = messages()
    assert warning.id == "django_redsess.W057"
    assert "shop.Visit.session, shop.Visit.others" in warning.msg
    assert "sid" in warning.hint
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.db"
    assert found() == ["W018"]


@pytest.mark.parametrize("name", ["no.such.Serializer", f"{__name__}.TextSerializer", f"{__name__}.BrokenSerializer"])
def test_a_serializer_that_does_not_work_is_refused(settings, name: str) -> None:
    settings.SESSION_SERIALIZER = name
    assert found() == ["E012"]


def bad_site(settings: Any, set_cache: SetCache) -> None:
    settings.SESSION_CACHE_ALIAS = "default"
    settings.SESSION_SERIALIZER = f"{__name__}.PickleSerializer"
    settings.MIDDLEWARE = [name for name in settings.MIDDLEWARE if name != OURS]
    kwargs = {"decode_responses": True, "retry_on_timeout": True}
    set_cache(alias="default", CONNECTION_POOL_KWARGS=kwargs)


def test_a_subclass_of_our_engine_is_checked_as_ours_is(settings, set_cache: SetCache) -> None:
    bad_site(settings, set_cache)
    settings.SESSION_ENGINE = __name__
    assert set(found()) == {"W005", "E007", "W009", "W010", "W011", "W013"}


@pytest.mark.parametrize("engine", ["django.contrib.sessions.backends.db", "no.such.engine", "testproject.demo", None])
def test_of_another_engine_nothing_is_said_but_that_it_is_not_ours(
    settings, set_cache: SetCache, engine: str | None
) -> None:
    bad_site(settings, set_cache)
    settings.SESSION_ENGINE = engine
    [warning] = messages()
    assert warning.id == "django_redsess.W018"
    assert repr(engine) in warning.msg
    assert "SESSION_ENGINE = 'django_redsess.backend'" in warning.hint
    assert "SILENCED_SYSTEM_CHECKS" in warning.hint
