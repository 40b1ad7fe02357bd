"""The pages of the reference say what the code says. What they take from the code themselves is not compared here."""

import re
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from django.apps import apps

import django_redsess
from django_redsess.accounts import urls
from django_redsess.conf import PROFILES, SETTINGS, conf
from docs._ext import facts
from tests.project.docs.pages import DOCS

pytestmark = pytest.mark.unit

PACKAGE = Path(django_redsess.__file__).parent

PUBLIC_MODULES = [
    *("accounts", "accounts.forms", "admin", "backend", "cluster", "exceptions", "middleware", "models", "online"),
    *("permissions", "signals", "testing", "viewed"),
    *(f"contrib.{name}" for name in ("geoip2", "prometheus.views", "readiness", "sockets")),
]


def page(name: str) -> str:
    *packages, last = name.split(".")
    name = packages[-1] if last == "views" else last
    return (DOCS / "reference" / f"{name}.rst").read_text(encoding="utf-8")


def directives(text: str, name: str) -> dict[str, str]:
    """Return the content of each directive of that name, by its argument. None may stand there twice."""
    found = re.findall(rf"^\.\. {name}:: (.+)\n((?:(?: .*)?\n)*)", text + "\n", re.MULTILINE)
    assert len(found) == len(dict(found))
    return {argument: dedent(content) for argument, content in found}


@pytest.mark.parametrize("public", PUBLIC_MODULES)
def test_a_page_has_what_its_module_has_in_all(public: str) -> None:
    module = import_module(f"django_redsess.{public}")
    kinds = "auto(?:function|class|exception|data|decorator)"
    named = re.findall(rf"^\.\. {kinds}:: (?:django_redsess\.{public}\.(?:\w+\.)?)?(\w+)$", page(public), re.MULTILINE)
    variants = facts.async_variants(module)
    # One sentence of the page names the async variants.
    assert bool(variants) == (f".. async-variants:: django_redsess.{public}\n" in page(public))
    assert sorted([*named, *(variants[name] for name in named if name in variants)]) == sorted(module.__all__)


def test_each_setting_is_there_once_with_an_example_that_is_allowed(settings: Any) -> None:
    settings.REDSESS = {}
    described = directives(page("settings"), "setting")
    assert sorted(described) == sorted(SETTINGS)
    for name, content in described.items():
        examples = re.findall(r"\.\. code-block:: python\n\n +(.+)", content)
        assert examples, name
        for example in examples:
            given: dict[str, Any] = {"REDSESS": {}}
            exec(example, given)
            assert all(SETTINGS[each].rule.allows(value) for each, value in given["REDSESS"].items()), example
            assert given["REDSESS"][name] != getattr(conf, name), f"{name}: the example is the default"


def test_the_values_of_each_profile_are_listed() -> None:
    assert re.findall(r"^   \.\. profile:: (\w+)$", page("settings"), re.MULTILINE) == list(PROFILES)


def found_in(pattern: str, *places: str) -> set[str]:
    """Return what modules of the package have of a pattern. ``places`` are patterns of paths in the package."""
    texts = [path.read_text(encoding="utf-8") for place in places for path in PACKAGE.glob(place)]
    return {name for text in texts for name in re.findall(pattern, text)}


def permissions() -> set[str]:
    labels = ("django_redsess", "redsess_history")
    models = [model._meta for label in labels for model in apps.get_app_config(label).get_models()]
    of_django = {f"{action}_{each.model_name}" for each in models for action in each.default_permissions}
    return of_django | {name for each in models for name, _ in each.permissions}


TEMPLATES = PACKAGE / "templates"


@pytest.mark.parametrize(
    ("name", "pattern", "names"),
    [
        ("checks", r"^\.\. check:: (\w+)$", found_in(r'"([EIW]\d{3})"', "checks/*.py", "contrib/*/checks.py")),
        ("commands", r"^\.\. command:: (\w+)$", {path.stem for path in PACKAGE.rglob("commands/[a-z]*.py")}),
        ("permissions", r"^``(\w+)``  ", permissions()),
        (
            "templates",
            r"^(?:- )?``([\w/]+\.html)``$",
            {str(p.relative_to(TEMPLATES)) for p in TEMPLATES.rglob("*.html")},
        ),
        ("urls", r"^``(\w+)``  ", {each.name for each in urls.urlpatterns}),
    ],
)
def test_a_page_has_all_names_of_the_code_and_no_others(name: str, pattern: str, names: set[str]) -> None:
    assert set(re.findall(pattern, page(name), re.MULTILINE)) == names
