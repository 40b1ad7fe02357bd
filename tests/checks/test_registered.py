"""Each check of an app is registered where the app is installed."""

from pathlib import Path

import pytest

import django_redsess
from tests.helpers.running import run_python

pytestmark = pytest.mark.unit

PACKAGE = Path(django_redsess.__file__).parent

PRINT_THEM = """
import django
django.setup()
from django.core.checks.registry import registry
for each in {*registry.registered_checks, *registry.deployment_checks}:
    print(each.__module__)
"""


@pytest.mark.slow
def test_what_a_site_has_installed_is_checked() -> None:
    modules = [path.relative_to(PACKAGE.parent).with_suffix("") for path in PACKAGE.rglob("*.py")]
    with_checks = {
        ".".join(module.parts)
        for module in modules
        if "@checks.register(" in (PACKAGE.parent / module).with_suffix(".py").read_text(encoding="utf-8")
    }
    assert len(with_checks) > 6
    # The demo shop has all apps of the package.
    demo = {"DJANGO_SETTINGS_MODULE": "testproject.settings", "DEMO_URL": "https://shop.example"}
    registered = run_python("-c", PRINT_THEM, **demo).split()
    assert with_checks - set(registered) == set()
