"""All pages of the documentation: links, code and pictures, and each name of the code that they mention exists."""

import ast
import builtins
import importlib
import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from django.core.management import load_command_class

import django_redsess
from django_redsess import online, viewed
from django_redsess.conf import Conf
from django_redsess.signals import Reason
from tests.helpers import errands, screenshots
from tests.helpers.public_names import python as python_names
from tests.helpers.public_names import source
from tests.project.docs.pages import DOCS, ROOT, Block, blocks, pages, steps_of

pytestmark = pytest.mark.unit

PACKAGE = Path(django_redsess.__file__).parent

PARSERS = {
    path.stem: load_command_class(".".join(path.relative_to(PACKAGE.parent).parts[:-3]), path.stem).create_parser(
        "manage.py", path.stem
    )
    for path in PACKAGE.rglob("commands/[a-z]*.py")
}

NO_CODE = {"locale", "lua", "migrations", "static", "templates"}


def found(pattern: str) -> set[str]:
    """Return what all pages have of a pattern. There must be some."""
    texts = [page.read_text(encoding="utf-8") for page in pages()]
    matches = {match for text in texts for match in re.findall(pattern, text, re.MULTILINE)}
    assert matches
    return matches


def python() -> Iterator[tuple[Path, Block, ast.Module]]:
    for page in pages():
        for block in blocks(page):
            if block.language == "python":
                yield page, block, ast.parse(block.text, filename=str(page))


def test_names_of_this_package_that_code_uses_exist() -> None:
    modules: dict[str, ModuleType] = {"online": online, "viewed": viewed}
    used = set()
    for _, _, tree in python():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("django_redsess"):
                used |= {(importlib.import_module(str(node.module)), alias.name) for alias in node.names}
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
                used.add((modules[node.value.id], node.attr))
    assert len(used) > 20
    assert [f"{module.__name__}.{name}" for module, name in used if not has(module, name)] == []


def has(module: ModuleType, name: str) -> bool:
    """Tell whether a module has a name, or a package a module that nobody may have imported yet."""
    return hasattr(module, name) or importlib.util.find_spec(f"{module.__name__}.{name}") is not None


def test_settings_that_are_named_exist() -> None:
    named = found(r'REDSESS\["(\w+)"\]')
    for _, _, tree in python():
        for node in ast.walk(tree):
            targets = [node.target] if isinstance(node, ast.AugAssign) else getattr(node, "targets", [])
            if isinstance(node, ast.Assign | ast.AugAssign) and ast.unparse(targets[0]) == "REDSESS":
                assert isinstance(node.value, ast.Dict)
                named |= {str(key.value) for key in node.value.keys if isinstance(key, ast.Constant)}
    assert sorted(name for name in named if not hasattr(Conf, name)) == []


def test_checks_that_are_named_exist() -> None:
    code = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    assert sorted(each for each in found(r"\b[EW]0\d\d\b") if f'"{each}"' not in code) == []


def test_commands_and_options_that_are_named_exist() -> None:
    shown = [line.partition(" ") for line in found(r"^ *\$ \S*python \S*manage\.py (.*)$")]
    ours = [(name, shlex.split(arguments)) for name, _, arguments in shown if name in PARSERS]
    assert len(ours) > 5
    for name, arguments in ours:
        PARSERS[name].parse_args(arguments)
    options = {option for parser in PARSERS.values() for option in parser._option_string_actions}
    assert sorted(found("``(--[a-z-]+)") - options) == []


def test_pages_are_written_for_readers_on_github_too() -> None:
    """A role of Sphinx stands there as text, and a block of code with an option is not shown at all."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        assert re.findall(r"(?<!`):(?!sup:)[a-z:]+:`.*", text) == [], page
        assert re.findall(r"^ *\.\. code-block::.*\n *:.*", text, re.MULTILINE) == [], page


def test_labels_and_directives_come_after_an_empty_line() -> None:
    """Else they are text of the paragraph above. Sphinx tells so only where something refers to the label."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        assert re.findall(r"^( *)(?!\.\. |[ \n]).+\n\1(\.\. .+)", text, re.MULTILINE) == [], page


def test_files_that_are_linked_to_exist() -> None:
    links = re.findall(r"\]\((docs/[^)]+)\)", (ROOT / "SECURITY.md").read_text())
    assert links
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_each_picture_is_one_that_make_screenshots_makes() -> None:
    shown = {name.removeprefix("../") for name in found(r"\.\. (?:\|\w+\| )?image:: (?:docs/)?(\S+\.png)$")}
    steps = [f"errands/{name}-{step.number}" for name in errands.ERRANDS for step in steps_of(name)]
    others = [*screenshots.PICTURES, screenshots.ON_A_PHONE, screenshots.BOUND]
    assert shown == {f"{name}.png" for name in [*others, *steps]}
    assert shown == {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.png")}


def test_each_picture_has_a_text_for_those_who_do_not_see_it_and_is_small() -> None:
    pictures = [
        (page, picture)
        for page in pages()
        for picture in re.findall(
            r"\.\. (?:\|\w+\| )?image:: .*\n((?: +.+\n)+)", page.read_text(encoding="utf-8"), re.MULTILINE
        )
    ]
    assert len(pictures) > 10
    assert [page for page, options in pictures if len(options.partition(":alt: ")[2]) < 30] == []
    sizes = {path.name: path.stat().st_size for path in DOCS.rglob("*.png")}
    assert max(sizes.values()) <= 120_000
    assert sum(sizes.values()) <= 2_500_000


@pytest.mark.parametrize("name", errands.ERRANDS)
def test_an_errand_has_three_to_five_steps_in_order_and_says_which_have_a_ring(name: str) -> None:
    steps = steps_of(name)
    assert 3 <= len(steps) <= 5
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    # What is pressed is in the text. When the picture is made, it is compared with what is written on the button.
    ringed = [step for step in steps if "A ring marks" in step.alt]
    assert ringed[0] == steps[0]
    assert [step for step in ringed if not re.search(r"(?<!\*)\*\w[^*]*\*(?!\*)", step.text)] == []


def architecture() -> dict[str, str]:
    return {path.stem: path.read_text(encoding="utf-8") for path in (DOCS / "architecture").glob("*.rst")}


def test_a_file_that_the_architecture_names_is_there() -> None:
    pattern = r"``([\w/.-]+\.(?:py|lua|rst|toml|po)|tests/\w+)``"
    # manage.py is the site's.
    named = {name for text in architecture().values() for name in re.findall(pattern, text)} - {"manage.py"}
    assert len(named) > 50
    # A script, or what several packages have, is named without its folder.
    assert not [
        name
        for name in sorted(named)
        if not any((folder / name).exists() for folder in (ROOT, PACKAGE))
        and ("/" in name or not list(PACKAGE.rglob(name)))
    ]


def test_the_modules_at_the_root_are_public_or_named_as_private() -> None:
    [named] = re.findall(r"^\(((?:``\w+``[\s,and]+)+)are private", architecture()["packages"], re.MULTILINE)
    private = set(re.findall(r"``(\w+)``", named))
    public = {name.removeprefix("django_redsess.").partition(".")[0] for name in python_names.modules()}
    public |= {path.stem for path in (DOCS / "reference").glob("*.rst")}
    at_the_root = {path.stem for path in PACKAGE.glob("[a-z]*.py")}
    assert sorted(at_the_root - public) == sorted(private)


def test_the_glossary_has_each_reason() -> None:
    [reasons] = re.findall(r"^_`reason`\n((?: {3}.*\n|\n)+)", architecture()["glossary"], re.MULTILINE)
    assert re.findall(r"^ {3}``(\w+)``$", reasons, re.MULTILINE) == [reason.value for reason in Reason]


def test_every_line_that_is_logged_is_on_the_page_for_troubles() -> None:
    page = (DOCS / "howto" / "troubleshooting.rst").read_text()
    # What a reader searches for, with … for what differs.
    titles = [" ".join(title.split()).split("…") for title in re.findall(r"^``([^`]+)``$", page, re.MULTILINE)]
    patterns = [".*".join(map(re.escape, title)) for title in titles]
    written = {re.sub(r"%(\.\d)?[a-z]", "", text) for _, _, text in source.logged()}
    assert len(written) > 15
    assert sorted(text for text in written if not any(re.fullmatch(each, text) for each in patterns)) == []


SETTINGS_OF_A_READER = {"CACHES", "DATABASES", "INSTALLED_APPS", "MIDDLEWARE", "REDSESS", "TEMPLATES"}
"""What a project has that Django's startproject and "Install" have made."""


def test_settings_of_guides_add_to_what_a_reader_has_and_import_what_they_use() -> None:
    seen = 0
    for page in sorted((DOCS / "howto").glob("*.rst")):
        for block in blocks(page):
            if block.language != "python" or not block.heading.startswith("shop/settings.py"):
                continue
            seen += 1
            names = [node for node in ast.walk(ast.parse(block.text)) if isinstance(node, ast.Name)]
            stored = {node.id for node in names if isinstance(node.ctx, ast.Store)}
            used = {node.id for node in names if isinstance(node.ctx, ast.Load)}
            imported = set(re.findall(r"^(?:from \S+ )?import (\w+)", block.text, re.MULTILINE))
            where = f"{page.name}: {block.heading}"
            assert used - stored - imported - SETTINGS_OF_A_READER - set(dir(builtins)) == set(), where
            replaced = set(re.findall(r"^(\w+) = ", block.text, re.MULTILINE)) & SETTINGS_OF_A_READER
            replaced |= set(re.findall(r'^\w+\[.*\]\["OPTIONS"\] = ', block.text, re.MULTILINE))
            # There, a reader is told to add only the entry, if there are others.
            assert replaced <= ({"CACHES", "REDSESS"} if page.name == "install.rst" else set()), where
    assert seen > 30
