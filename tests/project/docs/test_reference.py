"""The pages of the reference say what the code says. What they take from the code themselves is not compared here."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from inspect import signature
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from django.apps import apps
from django.core.management import load_command_class
from django.template import Engine
from django.utils import timezone

from django_redsess import urls
from django_redsess.checks.settings import RULES, SETTING_NAMES
from django_redsess.conf import conf
from django_redsess.middleware import RETRY_AFTER_SECONDS
from django_redsess.session.notice import HEADER, Notice
from django_redsess.signals import Reason
from django_redsess.templatetags import viewed_items
from django_redsess.transport.keys import Keyspace, Partition
from docs._ext import facts

ROOT = Path(__file__).parents[3]
REFERENCE = ROOT / "docs" / "reference"
PACKAGE = ROOT / "django_redsess"

PUBLIC_MODULES = (
    "accounts",
    "admin",
    "backend",
    "cluster",
    "exceptions",
    "forms",
    "middleware",
    "models",
    "online",
    "signals",
    "testing",
    "viewed",
)


@pytest.fixture(autouse=True)
def empty_store() -> None:
    """Pages need no server."""


def page(name: str) -> str:
    return (REFERENCE / f"{name}.rst").read_text(encoding="utf-8")


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
    assert sorted(described) == SETTING_NAMES
    for name, content in described.items():
        examples = re.findall(r"\.\. code-block:: python\n\n +(.+)", content)
        assert examples, name
        for example in examples:
            given: dict[str, Any] = {}
            exec(example, given)
            assert all(RULES[each].allows(value) for each, value in given["REDSESS"].items()), example
            assert given["REDSESS"][name] != getattr(conf, name), f"{name}: the example is the default"


def test_a_default_is_the_one_in_the_code(settings: Any) -> None:
    settings.REDSESS = {}
    described = facts.settings()
    assert {name: ast.literal_eval(each.default) for name, each in described.items()} == {
        name: getattr(conf, name) for name in SETTING_NAMES
    }
    assert described["MAX_SESSIONS"].default == "10_000_000"


def test_settings_in_seconds_say_so() -> None:
    described = directives(page("settings"), "setting")
    for name, each in facts.settings().items():
        if "seconds" in each.allowed:
            assert "Unit: seconds." in described[name]


def test_each_command_is_there_with_all_its_options() -> None:
    ours = {path.stem for path in (PACKAGE / "management" / "commands").glob("[a-z]*.py")}
    assert set(facts.COMMANDS) == ours == set(directives(page("commands"), "command"))
    for name in ours:
        parser = load_command_class("django_redsess", name).create_parser("manage.py", name)
        help_text = parser.format_help()
        options = [option for each in facts.command(name).options for option in each.names.split(", ")]
        assert all(option in help_text for option in options)
        # All that it does not name are Django's.
        left = set(re.findall(r"^ +(--[a-z-]+)", help_text, re.MULTILINE)) - {each.split()[0] for each in options}
        assert left <= {"--version", "--settings", "--pythonpath", "--traceback"} | {
            *("--no-color", "--force-color", "--skip-checks")
        }


@pytest.mark.parametrize("name", facts.COMMANDS)
def test_the_examples_of_a_command_can_be_given(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    command = load_command_class("django_redsess", name)
    monkeypatch.setattr(command, "execute", lambda *args, **options: taken.append(options))
    for example in facts.command(name).examples:
        arguments = shlex.split(example.partition(" | ")[0], comments=True)
        assert arguments[:2] == ["manage.py", name]
        # It leaves with an error where an argument is wrong.
        command.run_from_argv(arguments)
    assert len(taken) == len(facts.command(name).examples) > 1


def literals(node: ast.AST) -> Iterator[str]:
    """Return the texts in the code, of f-strings their constant parts."""
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


SAY_WHAT_IS_WRONG = ("outage", "agreement")


def test_each_system_check_is_there_with_its_message() -> None:
    sources = [
        *(PACKAGE / "checks").glob("*.py"),
        *(PACKAGE / "transport" / f"{name}.py" for name in SAY_WHAT_IS_WRONG),
    ]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sources]
    texts = {text for tree in trees for text in literals(tree)}
    described = directives(page("checks"), "check")
    assert set(described) == {text for text in texts if re.fullmatch(r"[EIW]\d{3}", text)}
    for number, content in described.items():
        messages = re.findall(r"^``(.+)``$", content, re.MULTILINE)
        assert messages, number
        for message in messages:
            for part in filter(None, map(str.strip, message.split("…"))):
                assert any(part in text for text in texts), f"{number}: {part}"
        # What to do stands behind the messages.
        assert not content.rstrip().endswith(f"``{messages[-1]}``"), number


def test_errors_and_warnings_are_called_by_their_letters() -> None:
    for path in (PACKAGE / "checks").glob("*.py"):
        for name, letter in re.findall(r'\b(error|warning)\("([EW])\d{3}"', path.read_text(encoding="utf-8")):
            assert (name, letter) in (("error", "E"), ("warning", "W"))


def rows(text: str) -> list[list[str]]:
    """Return the rows of the first table, each with its columns. A line without a first column goes on with a row."""
    head, *_ = re.findall(r"^=+(?: +=+)+$", text, re.MULTILINE)
    ends = [match.span() for match in re.finditer("=+", head)]
    body = text.split(head)[2]
    found: list[list[str]] = []
    for line in filter(None, body.split("\n")):
        cells = [line[start : (end if end < len(head) else None)].strip() for start, end in ends]
        if cells[0]:
            found.append(cells)
        else:
            found[-1] = [" ".join(filter(None, pair)) for pair in zip(found[-1], cells, strict=True)]
    return found


def test_all_redis_keys_are_there_by_name_and_type() -> None:
    store = Keyspace("redsess")
    [partition] = store.partitions
    of_one = {"online_user_of": "<id>", "message_of": "<id>", "viewed_by": "<sid>", "ended_of": "<sid>"}
    lists = {name for name, value in vars(Partition).items() if isinstance(value, property)} - {"lists", "names"}
    accessors = {getattr(partition, name): vars(Partition)[name] for name in lists}
    accessors |= {getattr(partition, name)(argument): vars(Partition)[name] for name, argument in of_one.items()}
    assert len(accessors) == len(partition.names)
    types = {"Hash": "hash", "Sorted set": "sorted set", "Text": "string", "List": "list"}
    assert {name.strip("`"): kind for name, kind, _ in rows(page("redis"))} == {
        name: types[re.split("[:,]", accessor.__doc__ or "")[0]] for name, accessor in accessors.items()
    }


def test_all_permissions_are_there() -> None:
    models = apps.get_app_config("django_redsess").get_models()
    made = {
        name
        for model in models
        for name in [
            *(f"{action}_{model._meta.model_name}" for action in model._meta.default_permissions),
            *(name for name, _ in model._meta.permissions),
        ]
    }
    assert {name.strip("`") for name, _ in rows(page("permissions"))} == made


def test_all_templates_are_there() -> None:
    folder = PACKAGE / "templates"
    named = re.findall(r"^(?:- )?``([\w/]+\.html)``$", page("templates"), re.MULTILINE)
    assert sorted(named) == sorted(str(path.relative_to(folder)) for path in folder.rglob("*.html"))


def test_the_blocks_of_public_templates_are_there() -> None:
    for name in ("503", "plain", "sessions"):
        template = Engine.get_default().get_template(f"django_redsess/{name}.html")
        blocks = re.findall(r"{% block (\w+) %}", template.source)
        [words] = re.findall(rf"^``django_redsess/{name}.html``\n((?:    .*\n|\n)+)", page("templates"), re.MULTILINE)
        assert blocks
        assert all(f"``{block}``" in words for block in blocks)


def test_the_context_of_the_page_of_ones_own_sessions_is_there() -> None:
    [table] = re.findall(r"^( +=+ =+\n(?:(?: +.*)?\n)+? +=+ =+\n(?: +.*\n)+? +=+ =+)$", page("templates"), re.MULTILINE)
    tree = ast.parse((PACKAGE / "views.py").read_text(encoding="utf-8"))
    [context] = [
        [key.value for key in node.value.keys if isinstance(key, ast.Constant)]
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Dict)
        and ast.unparse(node.targets[0]) == "context"
    ]
    assert {name.strip("`") for name, _ in rows(dedent(table))} == set(context)


def test_all_loggers_are_there() -> None:
    asked = {
        name
        for path in PACKAGE.rglob("*.py")
        for name in re.findall(r'getLogger\("([\w.]+)"\)', path.read_text(encoding="utf-8"))
    }
    assert asked <= set(re.findall(r"^``([\w.]+)``$", page("logging"), re.MULTILINE))


def test_the_header_of_an_ended_session_is_there_as_it_is_sent() -> None:
    notice = Notice(Reason.KICKED, "Back at noon", timezone.now())
    assert f"       {HEADER}: {notice.header}\n" in page("headers")
    assert f"``Retry-After``\n    {RETRY_AFTER_SECONDS} seconds" in page("headers")


def test_all_urls_are_there() -> None:
    named = {name.strip("`"): path.partition(",")[0].strip("`") for name, path, _ in rows(page("urls"))}
    assert named == {each.name: re.sub(r"<\w+:", "<", str(each.pattern)) or '""' for each in urls.urlpatterns}


def test_all_template_tags_are_there_with_what_they_take() -> None:
    described = re.findall(r"^\.\. function:: (\w+)\((.*)\)$", page("templatetags"), re.MULTILINE)
    assert dict(described) == {
        name: ", ".join(
            each.name if each.default is each.empty else f"{each.name}={each.default!r}"
            for each in signature(getattr(viewed_items, name)).parameters.values()
            if each.name != "context"
        )
        for name in viewed_items.register.tags
    }


def test_a_page_that_is_named_is_there() -> None:
    named = re.findall(r"^   (\w+)$", page("index"), re.MULTILINE)
    assert sorted(named) == sorted(path.stem for path in REFERENCE.glob("*.rst") if path.stem != "index")
