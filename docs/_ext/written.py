"""
What the pages have from the code: plain reStructuredText, so that it can be read wherever the pages are.

It stands between two comments. The first says what is written there, such as ``setting PREFIX``. ``make docs-pages``
writes all of it anew. What stands outside of the comments is written by hand, and stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from textwrap import dedent, fill, indent
from typing import NamedTuple

from django.conf.locale import LANG_INFO
from django.utils.translation import to_language

from django_redsess.conf import PROFILES, SETTINGS
from docs._ext import facts, sequence, signatures

DOCS = Path(__file__).parents[1]

START = '.. written by "make docs-pages": '
END = '.. end of what "make docs-pages" writes'

PART = re.compile(
    rf"^(?P<margin> *){re.escape(START)}(?P<kind>[\w-]+)(?: (?P<argument>.+))?\n"
    r"(?P<content>(?:(?P=margin) {3}.*\n)*)"
    rf"(?P<written>(?:.*\n)*?)(?P=margin){re.escape(END)}\n",
    re.MULTILINE,
)

SECTION = re.compile(r"^(?P<over>=+\n)?\S.*\n=+\n", re.MULTILINE)
"""The title of a section, or with a line above that of the page."""

COLUMNS = 116
"""So long may a line of a paragraph be, which may be indented."""

LANGUAGES = {".service": "ini", ".yml": "yaml", ".lua": "lua"}


class Part(NamedTuple):
    """A part of a page that is written from the code. ``content`` is what its first comment says besides."""

    page: Path
    kind: str
    argument: str
    content: str
    underline: str
    """The sign below a heading of it."""

    @property
    def name(self) -> str:
        """The dotted name of something of Python."""
        return self.argument.partition(" as ")[0]

    @property
    def title(self) -> str:
        """The title of the section that the part begins, or nothing if it begins none."""
        if self.kind == "setting":
            return self.argument
        if self.kind != "python":
            return ""
        found = signatures.find(self.name)
        # "django_redsess.contrib.sentry.Observer as sentry.Observer" has another title than its name.
        return (self.argument.partition(" as ")[2] or found.short) + ("()" if found.is_called else "")


Writer = Callable[[Part], str]


def parts(page: Path) -> Iterator[Part]:
    """Yield the parts of a page that are written from the code."""
    text = page.read_text(encoding="utf-8")
    for found in PART.finditer(text):
        yield _part(page, text, found)


def rewritten(page: Path) -> str:
    """Return the text of a page with all parts as the code has them now."""
    text = page.read_text(encoding="utf-8")

    def write(found: re.Match[str]) -> str:
        part = _part(page, text, found)
        head = found[0][: found.start("written") - found.start()]
        body = indent(WRITERS[part.kind](part).strip("\n"), found["margin"])
        return f"{head}\n{body}\n\n{found['margin']}{END}\n"

    return PART.sub(write, text)


def _part(page: Path, text: str, found: re.Match[str]) -> Part:
    by_hand = PART.sub("", text[: found.start()])
    is_in_a_section = any(not title["over"] for title in SECTION.finditer(by_hand))
    part = Part(page, found["kind"], found["argument"] or "", dedent(found["content"]), "=-"[is_in_a_section])
    is_member = part.kind == "python" and signatures.find(part.name).owner is not None
    return part._replace(underline="-~"[is_in_a_section]) if is_member else part


def pictures(page: Path) -> Mapping[Path, str]:
    """Return the pictures that the page shows and that are drawn from what it says, each with its file."""
    return {page.with_name(part.argument): _drawn(part) for part in parts(page) if part.kind == "sequence"}


def pages() -> list[Path]:
    """Return the pages of the documentation."""
    return sorted(DOCS.rglob("*.rst"))


def _setting(part: Part) -> str:
    setting = SETTINGS[part.argument]
    allowed = re.sub(r"(\{.*\}|'[^']*')", r"``\1``", setting.rule.words)
    default = f"{setting.default:_}" if type(setting.default) is int else repr(setting.default)
    in_profiles = "".join(
        f" *With the profile* ``{name}``: ``{values[setting.name]!r}``."
        for name, values in PROFILES.items()
        if setting.name in values
    )
    in_short = f"*Default*: ``{default}``. *Allowed*: {allowed}.{in_profiles}"
    return "\n\n".join([_heading(part), signatures.plain(cleandoc(setting.meaning)), in_short])


def _profile(part: Part) -> str:
    return "\n".join(f"- ``{name}``: ``{value!r}``" for name, value in PROFILES[part.argument].items())


def _command(part: Part) -> str:
    command = facts.command(part.argument)
    lines = [_code("text", command.usage), _of_help(command.help)]
    lines += [f"``{option.names}``\n{indent(_of_help(option.help), '    ')}" for option in command.options]
    lines += ["Examples:", _code("console", [f"$ {example}" for example in command.examples])]
    return "\n\n".join(lines)


def _fields(part: Part) -> str:
    rows = [("Name", "Type", "Meaning", "In Python")]
    for each in facts.fields_of(part.argument):
        in_python = f"``{each.in_python}``" if each.in_python else ""
        rows.append((f"``{each.name}``", f"``{each.type}``", signatures.plain(each.meaning), in_python))
    return _table(rows, widths=(20, 20, 45, 15))


def _where_it_runs(part: Part) -> str:
    rows = [("Python", "Django", "redis-py", "hiredis", "django-redis", "Server", "Database", "Tests passed")]
    for run in facts.runs():
        packages = [run[name] or "none" for name in rows[0][:5]]
        counted = [", ".join(f"{name} ({n})" for name, n in run[kind].items()) for kind in ("servers", "databases")]
        rows.append((*packages, *counted, f"{run['passed']}, on {run['date']}"))
    return _table(rows, widths=(9, 9, 9, 9, 10, 20, 20, 14))


def _layers(part: Part) -> str:
    """List the modules of a package, from the one that may import all others to those that may import none."""
    layers = facts.layers(part.argument)
    return "\n".join(f"#. {', '.join(f'``{name}``' for name in layer)}" for layer in layers)


def _works_with(part: Part) -> str:
    """List the packages whose tests were run beside this one with what came out, then those whose tests were not."""
    rows = [("Package", "With", "Pass", "Fail", "Tests that differ, and notes")]
    neighbours = facts.neighbours()
    for each in neighbours:
        if not each.not_run:
            notes = [f"{count}: {reason or 'not explained yet'}." for reason, count in each.differences.items()]
            notes = notes or ["None."]
            if each.revision:
                notes.append(f"Of its `repository <{each.repository}>`__ at {each.revision[:12]}.")
            rows.append(
                (
                    f"{each.name} {each.version}",
                    f"Django {each.django}, Python {each.python}, {each.date}",
                    str(each.passed),
                    str(each.failed),
                    " ".join([*notes, *(f"{note}." for note in each.notes)]),
                )
            )
    not_run = "\n".join(f"- {each.name} {each.version}: {each.not_run}." for each in neighbours if each.not_run)
    unknown = ["Not run, so nothing is known:", not_run] if not_run else []
    return "\n\n".join([_table(rows, widths=(22, 18, 10, 10, 40)), *unknown])


def _async_variants(part: Part) -> str:
    names = facts.async_variants(import_module(part.argument)).values()
    return f"The async variants are {', '.join(f'``{name}()``' for name in names)}."


def _python(part: Part) -> str:
    found = signatures.find(part.name)
    lines = signatures.signature(found).splitlines()
    if imported := _import(part, found):
        lines = [imported, *([""] if lines else []), *lines]
    code = _code("python", lines) if lines else ""
    return "\n\n".join(filter(None, [_heading(part), code, signatures.docstring(found)]))


def _import(part: Part, found: signatures.Found) -> str:
    """Return the line that imports a name. It is empty where the title of the page says its module."""
    name = found.module.__name__
    is_public = hasattr(found.module, "__all__") and ".templatetags." not in name
    is_in_the_title = f"``{name}``\n=" in part.page.read_text(encoding="utf-8")
    return f"from {name} import {found.name}" if is_public and found.owner is None and not is_in_the_title else ""


def _languages(part: Part) -> str:
    """List the languages whose texts are in the package."""
    folders = (DOCS.parent / "django_redsess" / "locale").iterdir()
    names = sorted(LANG_INFO[to_language(path.name)]["name"] for path in folders if path.is_dir())
    return "\n".join(f"- {name}" for name in names)


def _file(part: Part) -> str:
    path = part.page.parent / part.argument
    return _code(LANGUAGES[path.suffix], path.read_text(encoding="utf-8").splitlines())


def _script(part: Part) -> str:
    """Show a script of a file of Lua: ``viewed.lua record_view``."""
    file, name = part.argument.split()
    text = (DOCS.parent / "django_redsess" / "lua" / file).read_text(encoding="utf-8")
    [script] = re.findall(rf"^--- {name}\b(?:.*\n)+?(?=^--- |\Z)", text, re.MULTILINE)
    return _code("lua", script.strip().splitlines())


def _sequence(part: Part) -> str:
    alt, _, _ = part.content.partition("\n")
    return f".. image:: {part.argument}\n   :alt: {' '.join(alt.split())}"


def _drawn(part: Part) -> str:
    alt, _, lines = part.content.partition("\n")
    return sequence.draw(lines, alt=alt) + "\n"


WRITERS: Mapping[str, Writer] = {
    "setting": _setting,
    "profile": _profile,
    "command": _command,
    "fields": _fields,
    "where-it-runs": _where_it_runs,
    "layers": _layers,
    "works-with": _works_with,
    "async-variants": _async_variants,
    "python": _python,
    "languages": _languages,
    "file": _file,
    "script": _script,
    "sequence": _sequence,
}


def _heading(part: Part) -> str:
    title = f"``{part.title}``"
    return f"{title}\n{part.underline * len(title)}"


def _of_help(text: str) -> str:
    """Return a help text as a paragraph. It is for terminals: no sign in it is markup."""
    for sign in "\\*`|":
        text = text.replace(sign, f"\\{sign}")
    # Two hyphens would become a dash, and an underscore may be a link.
    text = re.sub(r"(?<!\S)(--[a-z-]+|[A-Z]+(?:_[A-Z]+)+\b|pk=\d+)", r"``\1``", text)
    text = re.sub(r"(?<=\w)_(?!\w)", r"\_", text)
    return fill(text, COLUMNS, break_on_hyphens=False, break_long_words=False)


def _table(rows: Sequence[Sequence[str]], *, widths: Sequence[int]) -> str:
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {' '.join(map(str, widths))}", ""]
    for row in rows:
        lines += [f"   {'*' if number == 0 else ' '} - {cell}".rstrip() for number, cell in enumerate(row)]
    return "\n".join(lines)


def _code(language: str, lines: Sequence[str]) -> str:
    return f".. code-block:: {language}\n\n" + indent("\n".join(lines), "   ")


def outdated() -> dict[Path, str]:
    """Return the files that are not as the code says, with what they should be."""
    wanted = {page: rewritten(page) for page in pages()}
    for page in pages():
        wanted |= pictures(page)
    return {path: text for path, text in wanted.items() if not path.is_file() or path.read_text("utf-8") != text}
