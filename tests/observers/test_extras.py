"""An observer whose package is missing is refused when the site starts, with the words that mend it."""

import sys

import pytest
from django.core.exceptions import ImproperlyConfigured

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("module", "package", "extra"), [("opentelemetry", "opentelemetry", "otel"), ("sentry", "sentry_sdk", "sentry")]
)
def test_the_extra_is_named(settings, monkeypatch, module: str, package: str, extra: str) -> None:
    monkeypatch.delitem(sys.modules, f"django_redsess.observers.{module}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImproperlyConfigured) as refused:
        settings.REDSESS = {"OBSERVERS": [f"django_redsess.observers.{module}.Observer"]}
    assert f'pip install "django-redsess[{extra}]"' in str(refused.value)


def test_another_missing_module_is_named(settings) -> None:
    with pytest.raises(ImproperlyConfigured, match="No module named"):
        settings.REDSESS = {"OBSERVERS": ["django_redsess.observers.nothing.Observer"]}
