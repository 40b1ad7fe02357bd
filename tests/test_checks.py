import pytest
from django.core.checks import run_checks

from django_redsess.checks import RULES, SETTING_NAMES
from django_redsess.conf import conf


def found() -> list[str]:
    return [message.id for message in run_checks() if message.id.startswith("django_redsess")]


def test_the_demo_has_nothing_to_complain_about() -> None:
    assert found() == []


def test_every_setting_has_a_rule_that_its_default_keeps(settings) -> None:
    settings.REDSESS = {}
    assert sorted(RULES) == SETTING_NAMES
    assert all(rule.allows(getattr(conf, name)) for name, rule in RULES.items())


def test_an_unknown_setting_is_refused_with_the_names_allowed(settings) -> None:
    settings.REDSESS = {"MAX_SESSION": 5}
    [error] = [message for message in run_checks() if message.id == "django_redsess.E002"]
    assert "'MAX_SESSION'" in error.msg
    assert "MAX_SESSIONS" in error.hint


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PREFIX", ""),
        ("PREFIX", "a{b}"),
        ("PREFIX", 5),
        ("MAX_SESSIONS", 0),
        ("MAX_SESSIONS", "10"),
        ("MAX_SESSIONS", True),
        ("TOUCH_INTERVAL", -1),
        ("TOUCH_INTERVAL", 0.5),
        ("VIEWED_VIEWS", ["shop:product"]),
        ("VIEWED_VIEWS", {"shop:product": 5}),
        ("VIEWED_PER_SESSION", 0),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(settings, name: str, value: object) -> None:
    settings.REDSESS = {name: value}
    assert found() == ["django_redsess.E003"]


def test_settings_that_are_no_dict_are_refused(settings) -> None:
    settings.REDSESS = ["PREFIX"]
    assert found() == ["django_redsess.E001"]
    settings.REDSESS = {}


@pytest.mark.parametrize("alias", ["missing", "local"])
def test_a_cache_that_is_not_of_django_redis_is_refused(settings, alias: str) -> None:
    settings.CACHES = {**settings.CACHES, "local": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    settings.SESSION_CACHE_ALIAS = alias
    assert found() == ["django_redsess.E004"]
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.db"
    assert found() == []
