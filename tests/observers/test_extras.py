"""An observer that can't be made is left out. The log and a check say why, with the words that mend it."""

import logging
import sys
from typing import Any

import pytest
from django.core import checks

from django_redsess import observers
from django_redsess.checks.settings import check_functions

pytestmark = pytest.mark.unit


def told() -> list[checks.CheckMessage]:
    return [each for each in check_functions() if each.id == "django_redsess.E091"]


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("opentelemetry", "opentelemetry", "otel"),
        ("prometheus.observer", "prometheus_client", "prometheus"),
        ("sentry", "sentry_sdk", "sentry"),
    ],
)
def test_the_extra_is_named(settings, monkeypatch, caplog, module: str, package: str, extra: str) -> None:
    assert told() == []
    monkeypatch.delitem(sys.modules, f"django_redsess.contrib.{module}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    settings.REDSESS = {"OBSERVERS": [f"django_redsess.contrib.{module}.Observer"]}
    assert observers.chosen == ()
    [message] = told()
    assert f"the package {package} is missing" in message.msg
    assert message.hint == f"Install it: pip install 'django-redsess[{extra}]'."
    [record] = caplog.records
    assert (record.levelno, message.hint in record.getMessage()) == (logging.ERROR, True)
    settings.REDSESS = {}
    assert told() == []


class Needy:
    def __init__(self, what: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("django_redsess.observers.nothing.Observer", "No module named"),
        ("django_redsess.observers.Nobody", "Nobody"),
        (f"{__name__}.Needy", "TypeError"),
    ],
)
def test_any_other_reason_is_named_and_the_others_observe(settings, caplog, path: str, named: str) -> None:
    settings.REDSESS = {"OBSERVERS": [path, "tests.observers.test_observing.Notes"]}
    [message] = told()
    assert named in message.msg
    assert path in message.msg
    assert [type(each.observer).__name__ for each in observers.chosen] == ["Notes"]
