"""What is found wrong with REDSESS and with Django's settings of sessions."""

import pickle
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.contrib.sessions.models import Session
from django.core.exceptions import ImproperlyConfigured
from django.db import models
from django.http import HttpResponse

from django_redsess import backend
from django_redsess.checks.settings import SYNONYMS
from django_redsess.conf import LARGEST, SETTINGS, conf
from django_redsess.middleware import SessionMiddleware
from django_redsess.online.networks import LINES_MAX
from django_redsess.permissions import Rules
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


def test_every_setting_has_a_rule_that_its_default_keeps(settings) -> None:
    settings.REDSESS = {}
    assert all(each.rule.allows(getattr(conf, name)) for name, each in SETTINGS.items())


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *(("MAX_SESSION", "'MAX_SESSIONS'"), ("idle_timeout", "'IDLE_TIMEOUT'"), ("COLOUR", ""), (5, "")),
        *(("ON_LIMIT", "'SESSION_LIMIT_POLICY'"), ("TIMEOUT", "'IDLE_TIMEOUT' or 'ABSOLUTE_TIMEOUT'")),
        *(("DEVICE_ORIGINS", "'DEVICE_BOUND_ORIGINS'"), ("USER_NAME", "")),
    ],
)
def test_an_unknown_setting_is_refused_and_what_it_is_like_is_told(settings, name: object, meant: str) -> None:
    settings.REDSESS = {name: 5}
    [error] = messages()
    assert error.id == "django_redsess.E002"
    assert repr(name) in error.msg
    assert error.hint.startswith(f"Did you mean {meant}? All settings: https" if meant else "All settings: https://")


def test_a_setting_of_djangos_within_redsess_is_told_where_it_belongs(settings) -> None:
    settings.REDSESS = {"SESSION_COOKIE_AGE": 5}
    [error] = messages()
    assert (error.id, "outside of REDSESS" in error.hint) == ("django_redsess.E002", True)


def test_all_words_for_settings_lead_to_one() -> None:
    assert {name for names in SYNONYMS.values() for name in names} <= set(SETTINGS)
    assert not set(SYNONYMS) & set(SETTINGS)


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("REDSESS_IDLE_TIMEOUT", 5, "Write it as REDSESS = {'IDLE_TIMEOUT': …}."),
        *((name, {}, "Did you mean REDSESS?") for name in ("REDSES", "DJANGO_REDSESS")),
    ],
)
def test_a_setting_that_is_meant_for_this_app_and_not_read_is_warned_of(settings, name: str, value, hint: str) -> None:
    setattr(settings, name, value)
    [warning] = messages()
    assert (warning.id, warning.hint) == ("django_redsess.W131", hint)


HUGE = 10**25

STRONG = "a key of this site that nobody guesses"

WRONG: dict[str, list[object]] = {
    "PROFILE": ["Strict", "", ["strict"], True],
    "PREFIX": ["", "a{b}", 5, None],
    "MAX_SESSIONS": [0, "10", True, HUGE],
    "MAX_GUESTS": [0, "10", True, HUGE],
    "MAX_SESSIONS_PER_USER": [0, -1, 2.5, True, "3", "", "sessions_of", len, [3], HUGE],
    "USER_SESSIONS_CEILING": [0, HUGE],
    "SESSION_LIMIT_POLICY": ["end_newest", "", None, ["refuse"]],
    "CONFIRM_ENDS": [1, (1,), (0, 100), (1, 0), (1, 0.5), (True, 100), "12", (1, HUGE), (HUGE, 100)],
    "TOUCH_INTERVAL": [-1, 0.5, 86401],
    "PARTITIONS": [0, -2, 3, 2048, 4.0, True],
    "IDLE_TIMEOUT": [0, 0.5, HUGE],
    "ABSOLUTE_TIMEOUT": [False, "8h", HUGE],
    "SLIDING": [1, None],
    "PASSIVE_PATHS": ["/poll/", ["poll/"], ["/poll/", 5], None],
    "HIDDEN_VALUES": ["oauth_token", ["oauth_token", 5], None],
    "PASSIVE_HEADER": ["", None],
    "TRUSTED_PROXY_COUNT": [-1, True, ["10.0.0.1"], HUGE],
    "CLIENT_ADDRESS": ["hashed", None, ["full"]],
    "ENCRYPT": [1, "yes", None],
    "ENCRYPTION_KEYS": ["a key", [""], [5], {"a": "key"}, [], ()],
    "VIEWED_VIEWS": [["shop:product"], {"shop:product": 5}],
    "VIEWED_PER_SESSION": [0, HUGE],
    "VIEWED_LIMIT": [0, HUGE],
    "HISTORY_DAYS": [0, HUGE],
    "DEVICE_BOUND_SECONDS": [0, HUGE],
    "VIEWED_GUESTS": [1, None],
    "VIEWED_RESOLVE": ["products", len, ""],
    "PLACES": ["geoip2", len, ""],
    "USER_TIME_ZONE": ["Paris", len, ""],
    "ASYNC_CONNECTION_CLASS": ["Tunnel", dict, ""],
    "REAUTHENTICATE": [1, None],
}

RIGHT: dict[str, list[object]] = {
    "PROFILE": [None, "strict"],
    "MAX_SESSIONS": [LARGEST],
    "VIEWED_PER_SESSION": [LARGEST],
    "TOUCH_INTERVAL": [0, 86400],
    "MAX_SESSIONS_PER_USER": [None, 1, 10_000, f"{__name__}.found"],
    "USER_SESSIONS_CEILING": [None],
    "SESSION_LIMIT_POLICY": ["end_oldest", "end_least_recent", "refuse"],
    "PARTITIONS": [2, 1024],
    "IDLE_TIMEOUT": [1],
    "ABSOLUTE_TIMEOUT": [8 * 3600],
    "SLIDING": [True],
    "PASSIVE_PATHS": [["/poll/", "/"], ("/poll/",)],
    "HIDDEN_VALUES": [["oauth_token"], ()],
    "PASSIVE_HEADER": ["X-Heartbeat"],
    "TRUSTED_PROXY_COUNT": [2],
    "CLIENT_ADDRESS": ["truncated", "none"],
    "ENCRYPT": [True],
    "ENCRYPTION_KEYS": [None, [STRONG, STRONG.encode()], (STRONG,), f"{__name__}.found"],
    "VIEWED_RESOLVE": [f"{__name__}.found"],
    "PLACES": [None, "django_redsess.contrib.geoip2.places"],
    "USER_TIME_ZONE": [None, f"{__name__}.found"],
    "ASYNC_CONNECTION_CLASS": [None, "redis.asyncio.connection.Connection"],
    "REAUTHENTICATE": [False],
}


def test_values_of_the_wrong_kind_are_refused_and_others_are_allowed(settings) -> None:
    # In the first round, the first wrong value of each setting, and so on.
    for number in range(max(map(len, WRONG.values()))):
        settings.REDSESS = {name: values[number] for name, values in WRONG.items() if number < len(values)}
        told = messages()
        assert {error.id for error in told} == {"django_redsess.E003"}
        assert sorted(re.findall(r"^REDSESS\['(\w+)'\]", error.msg)[0] for error in told) == sorted(settings.REDSESS)
    for name, values in RIGHT.items():
        for value in values:
            settings.REDSESS = {name: value}
            assert found() == [], (name, value)


def test_a_server_does_not_start_with_a_number_that_scripts_can_not_hold(settings) -> None:
    for name in [name for name, values in WRONG.items() if HUGE in values]:
        settings.REDSESS = {name: HUGE}
        with pytest.raises(ImproperlyConfigured, match=rf"^REDSESS\['{name}'\] must be an? .*; it is {HUGE}\.$"):
            SessionMiddleware(lambda request: HttpResponse())


def test_what_is_no_dict_is_refused_and_an_empty_one_is_fine(settings) -> None:
    settings.REDSESS = ["PREFIX"]
    assert found() == ["E001"]
    settings.REDSESS = {}
    assert found() == []


@pytest.mark.parametrize("key", ["s3cret", {"s3cret": "s3cret"}])
def test_a_key_is_not_shown_where_it_is_of_the_wrong_type(settings, key: object) -> None:
    settings.REDSESS = {"ENCRYPTION_KEYS": key}
    [error] = messages()
    assert error.id == "django_redsess.E003"
    assert "s3cret" not in error.msg


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (STRONG[:31], "has fewer than 32 characters"),
        ("ab" * 20, "has fewer than 8 different ones"),
        (f"django-insecure-{STRONG}", "begins with 'django-insecure-'"),
        (f"django-insecure-{STRONG}".encode(), "begins with 'django-insecure-'"),
        (b"short", "has fewer than 32 characters, has fewer than 8 different ones"),
    ],
)
def test_a_weak_key_is_warned_of_and_not_shown(settings, key: str | bytes, why: str) -> None:
    settings.REDSESS = {"ENCRYPTION_KEYS": [STRONG, key]}
    [warning] = messages()
    assert warning.id == "django_redsess.W101"
    assert warning.msg == f"REDSESS['ENCRYPTION_KEYS'][1] is weak: it {why}."


def test_a_key_that_is_the_secret_key_is_warned_of(settings) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = STRONG, [STRONG[::-1]]
    for key in (STRONG, STRONG.encode(), STRONG[::-1]):
        settings.REDSESS = {"ENCRYPTION_KEYS": [key]}
        assert found() == ["W103"]
    settings.REDSESS = {"ENCRYPTION_KEYS": [f"{STRONG}."]}
    assert found() == []


def test_encryption_needs_its_package(settings, monkeypatch) -> None:
    settings.REDSESS = {"ENCRYPT": True}
    assert found() == []
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    assert found() == ["E100"]
    settings.REDSESS = {"ENCRYPTION_KEYS": [STRONG]}
    assert found() == []


def test_more_guests_than_sessions_is_warned_of(settings) -> None:
    for maximum, ids in ((1001, ["W024"]), (1000, []), (None, [])):
        settings.REDSESS = {"MAX_SESSIONS": 1000, "MAX_GUESTS": maximum}
        assert found() == ids
    # What is wrong at all is told once.
    settings.REDSESS = {"MAX_SESSIONS": "1000", "MAX_GUESTS": 1001}
    assert found() == ["E003"]


@pytest.mark.parametrize("path", ["no.such.function", f"{__name__}.OURS", f"{__name__}.nothing", "no such path.x"])
def test_a_path_that_leads_to_no_function_is_refused(settings, path: str) -> None:
    names = (
        "VIEWED_RESOLVE",
        "MAX_SESSIONS_PER_USER",
        "PLACES",
        "USER_TIME_ZONE",
        "HISTORY_MAILER",
        "HISTORY_LANGUAGE",
        "PERMISSIONS",
        "ENCRYPTION_KEYS",
    )
    settings.REDSESS = dict.fromkeys(names, path)
    assert found() == ["E016", "E017", "E066", "E067", "E083", "E098", "E102", "E104"]


def test_lists_of_networks_that_can_not_be_used_are_named(settings, tmp_path) -> None:
    good, bad, gone = tmp_path / "good", tmp_path / "bad", tmp_path / "gone"
    good.write_text("198.51.100.7\n")
    bad.write_text("198.51.100.7\nnonsense\n")
    settings.REDSESS = {"NETWORKS": {"tor": good, "bad": str(bad), "gone": gone, "10.1": good}}
    assert found() == ["E135", "E135", "E136"]
    settings.REDSESS = {"NETWORKS": {"tor": good}}
    assert found() == []
    long = tmp_path / "long"
    long.write_text("# nothing\n" * (LINES_MAX + 1))
    settings.REDSESS = {"NETWORKS": {"long": long}}
    [error] = messages()
    assert (error.id, "more than 100,000 lines" in error.msg) == ("django_redsess.E135", True)
    settings.REDSESS = {"NETWORKS": [good]}
    assert found() == ["E003"]


class WithArguments(Rules):
    def __init__(self, needed: object) -> None: ...


def test_rules_are_a_class_of_ours_that_can_be_made(settings) -> None:
    for path in ("django.contrib.admin.ModelAdmin", f"{__name__}.WithArguments", "django_redsess.permissions.rules"):
        settings.REDSESS = {"PERMISSIONS": path}
        assert found() == ["E098"]


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
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.db"
    assert found() == ["W018"]


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        *((f"{__name__}.PickleSerializer", ["W013"]), (f"{__name__}.PackingSerializer", [])),
        *((f"{__name__}.TextSerializer", ["E012"]), (f"{__name__}.BrokenSerializer", ["E012"])),
        ("no.such.Serializer", ["E012"]),
    ],
)
def test_a_serializer_that_pickles_or_does_not_work_is_told(settings, name: str, ids: list[str]) -> None:
    settings.SESSION_SERIALIZER = name
    assert found() == ids


def bad_site(settings: Any, set_cache: SetCache) -> None:
    settings.SESSION_CACHE_ALIAS = "default"
    settings.SESSION_SERIALIZER = f"{__name__}.PickleSerializer"
    settings.MIDDLEWARE = [name for name in settings.MIDDLEWARE if name != OURS]
    set_cache(alias="default", CONNECTION_POOL_KWARGS={"retry_on_timeout": True})


def test_a_subclass_of_our_engine_is_checked_as_ours_is(settings, set_cache) -> None:
    bad_site(settings, set_cache)
    settings.SESSION_ENGINE = __name__
    assert set(found()) == {"W005", "W009", "W010", "W011", "W013"}


@pytest.mark.parametrize("engine", ["django.contrib.sessions.backends.db", None])
def test_of_another_engine_nothing_is_said_but_that_it_is_not_ours(settings, set_cache, engine: str | None) -> None:
    bad_site(settings, set_cache)
    settings.SESSION_ENGINE = engine
    assert found() == ["W018"]


@pytest.mark.parametrize(
    ("engine", "meant"),
    [
        *((name, "") for name in ("django_redsess.backends", "django_redsess", "django_redsess.backend.SessionStore")),
        *(("no.such.engine", ""), ("testproject.demo", "")),
        ("django_redsess.contrib.movin", "django_redsess.contrib.moving"),
        ("django.contrib.session.backends.db", "django.contrib.sessions.backends.db"),
    ],
)
def test_an_engine_that_is_none_is_refused_and_what_is_meant_is_told(settings, engine: str, meant: str) -> None:
    settings.SESSION_ENGINE = engine
    [error] = messages()
    assert error.id == "django_redsess.E129"
    assert error.hint.endswith(f"Set SESSION_ENGINE = {meant or 'django_redsess.backend'!r}.")


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("django_redsess.middlewares.SessionMiddleware", OURS),
        ("django_redsess.SessionMiddleware", OURS),
        ("django_redsess.middleware.ViewedItemMiddleware", "django_redsess.middleware.ViewedItemsMiddleware"),
    ],
)
def test_a_middleware_of_ours_that_does_not_exist_is_told_before_the_site_starts(settings, wrong, meant) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, wrong]
    [error] = messages()
    assert (error.id, error.hint) == ("django_redsess.E130", f"Did you mean {meant!r}?")


def test_mails_without_the_app_that_sends_them_are_warned_of(settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "HISTORY_NOTIFY": True, "HISTORY_SITE_URL": "https://shop.example"}
    assert found() == []
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django_redsess.contrib.history"]
    assert found() == ["W068"]


def test_mails_without_the_address_of_the_site_are_warned_of(settings, add_sites) -> None:
    settings.REDSESS = {**settings.REDSESS, "HISTORY_NOTIFY": True}
    assert found() == ["W082"]
    add_sites()
    assert found() == ["W082"]
    settings.SITE_ID = 1
    assert found() == []


def test_the_address_of_the_site_must_be_a_url(settings) -> None:
    for url in ("shop.example", "javascript://shop.example", "https://", "https://a b", "https://a?b", 5):
        settings.REDSESS = {**settings.REDSESS, "HISTORY_SITE_URL": url}
        assert found() == ["E003"], url


@pytest.mark.parametrize(
    ("login_url", "ids"),
    [
        *(("/accounts/login/", ["W084"]), ("nothing", ["W084"]), ("shop:nothing", ["W084"])),
        *(("login", []), ("/login/", []), ("/login", []), ("/login/?by=1", []), ("https://id.example/login", [])),
    ],
)
def test_pages_of_own_sessions_need_a_page_to_sign_in(settings, login_url: str, ids: list[str]) -> None:
    settings.LOGIN_URL = login_url
    assert found() == ids
    assert all("'admin:login'" in message.hint for message in messages())
    settings.ROOT_URLCONF = "testproject.shop.urls"
    assert found() == []
