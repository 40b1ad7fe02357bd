"""
What the reference and the pages on architecture are written with.

``setting``, ``profile``, ``command`` and ``fields`` take their words from the code, ``async-variants`` and ``layers``
list what is there, ``works-with`` and ``where-it-runs`` show what was run, and ``sequence`` draws. System checks
are objects that other pages can link to: ``:check:`E001```.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from inspect import cleandoc
from textwrap import indent

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from django_redsess.conf import PROFILES, SETTINGS
from docs._ext import facts, sequence


class SettingDirective(SphinxDirective):
    """Describe a setting. What stands in the directive follows: an example, mostly."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        setting = SETTINGS[self.arguments[0]]
        allowed = re.sub(r"(\{.*\}|'[^']*')", r"``\1``", setting.rule.words)
        default = f"{setting.default:_}" if type(setting.default) is int else repr(setting.default)
        facts_in_short = f"*Default*: ``{default}``. *Allowed*: {allowed}.{_in_profiles(setting.name)}"
        text = "\n\n".join([cleandoc(setting.meaning), facts_in_short, "\n".join(self.content)])
        return self.parse_text_to_nodes(f".. confval:: {setting.name}\n\n" + indent(text, "   "))


class ProfileDirective(SphinxDirective):
    """List the values of a profile."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        values = PROFILES[self.arguments[0]]
        return self.parse_text_to_nodes(
            "\n".join(f"- :confval:`{name}`: ``{value!r}``" for name, value in values.items())
        )


class CommandDirective(SphinxDirective):
    """Describe a command, by its own help."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        command = facts.command(name)
        lines = [_literal("text", command.usage), _plain(command.help), f".. program:: {name}"]
        lines += [f".. option:: {option.names}\n\n   {_plain(option.help)}" for option in command.options]
        lines += ["Examples:", _literal("console", [f"$ {example}" for example in command.examples])]
        return self.parse_text_to_nodes("\n\n".join(lines))


class FieldsDirective(SphinxDirective):
    """List the fields of a session, a sign-in or a block: what they are called, and what they mean."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        rows = [("Name", "Type", "Meaning", "In Python")]
        for each in facts.fields_of(self.arguments[0]):
            in_python = f"``{each.in_python}``" if each.in_python else ""
            rows.append((f"``{each.name}``", f"``{each.type}``", each.meaning, in_python))
        return self.parse_text_to_nodes(_table(rows, widths=(20, 20, 45, 15)))


class WhereItRunsDirective(SphinxDirective):
    """List the runs of the tests, and what they ran with."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(facts.RUNS))
        rows = [("Python", "Django", "redis-py", "hiredis", "django-redis", "Server", "Database", "Tests passed")]
        for run in facts.runs():
            packages = [run[name] or "none" for name in rows[0][:5]]
            counted = [", ".join(f"{name} ({n})" for name, n in run[kind].items()) for kind in ("servers", "databases")]
            rows.append((*packages, *counted, f"{run['passed']}, on {run['date']}"))
        return self.parse_text_to_nodes(_table(rows, widths=(9, 9, 9, 9, 10, 20, 20, 14)))


class LayersDirective(SphinxDirective):
    """List the modules of a package, from the one that may import all others to those that may import none."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(facts.PYPROJECT))
        layers = facts.layers(self.arguments[0])
        return self.parse_text_to_nodes(
            "\n".join(f"#. {', '.join(f'``{name}``' for name in layer)}" for layer in layers)
        )


class WorksWithDirective(SphinxDirective):
    """List the packages whose tests were run beside this one with what came out, then those whose tests were not."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(facts.WORKS_WITH))
        lines = [".. list-table::", "   :header-rows: 1", "   :widths: 22 18 10 10 40", ""]
        rows = [("Package", "With", "Pass", "Fail", "Tests that differ, and notes")]
        neighbours = facts.neighbours()
        for each in neighbours:
            if not each.not_run:
                notes = [f"{count}: {reason or 'not explained yet'}." for reason, count in each.differences.items()]
                rows.append(
                    (
                        f"{each.name} {each.version}",
                        f"Django {each.django}, Python {each.python}, {each.date}",
                        str(each.passed),
                        str(each.failed),
                        " ".join([*(notes or ["None."]), *(f"{note}." for note in each.notes)]),
                    )
                )
        for row in rows:
            lines += [f"   {mark} - {cell}" for mark, cell in zip("*    ", row, strict=True)]
        lines += ["", "Not run, so nothing is known:", ""]
        lines += [f"- {each.name} {each.version}: {each.not_run}." for each in neighbours if each.not_run]
        return self.parse_text_to_nodes("\n".join(lines))


class AsyncVariantsDirective(SphinxDirective):
    """Name the async variants of a module's functions."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        names = facts.async_variants(import_module(self.arguments[0])).values()
        return self.parse_text_to_nodes(f"The async variants are {', '.join(f'``{name}()``' for name in names)}.")


class Picture(SphinxDirective):
    """A picture in the page, as wide as there is room. Where there is less than it needs, it scrolls."""

    has_content = True
    option_spec = {"alt": directives.unchanged_required}

    def draw(self) -> str:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        # Without a tab stop, no keyboard could scroll it.
        head = '<div tabindex="0" role="group" aria-label="Picture" style="overflow-x: auto">'
        return [nodes.raw("", f"{head}{self.draw()}</div>", format="html")]


class SequenceDirective(Picture):
    """Draw who says what to whom, in order: see :mod:`docs._ext.sequence`."""

    def draw(self) -> str:
        return sequence.draw("\n".join(self.content), alt=self.options["alt"])


def _in_profiles(setting: str) -> str:
    return "".join(
        f" *With the profile* ``{name}``: ``{values[setting]!r}``."
        for name, values in PROFILES.items()
        if setting in values
    )


def _plain(text: str) -> str:
    # Help texts are for terminals: no sign in them is markup. Two hyphens would become a dash.
    for sign in "\\*`_|":
        text = text.replace(sign, f"\\{sign}")
    return re.sub(r"(?<!\S)(--[a-z-]+)", r"``\1``", text)


def _table(rows: Sequence[Sequence[str]], *, widths: Sequence[int]) -> str:
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {' '.join(map(str, widths))}", ""]
    for row in rows:
        lines += [f"   {'*' if number == 0 else ' '} - {cell}".rstrip() for number, cell in enumerate(row)]
    return "\n".join(lines)


def _literal(language: str, lines: Sequence[str]) -> str:
    return f".. code-block:: {language}\n\n" + indent("\n".join(lines), "   ")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("setting", SettingDirective)
    app.add_directive("profile", ProfileDirective)
    app.add_directive("command", CommandDirective)
    app.add_directive("async-variants", AsyncVariantsDirective)
    app.add_directive("fields", FieldsDirective)
    app.add_directive("layers", LayersDirective)
    app.add_directive("sequence", SequenceDirective)
    app.add_directive("works-with", WorksWithDirective)
    app.add_directive("where-it-runs", WhereItRunsDirective)
    app.add_object_type("check", "check", "pair: %s; system check")
    return {"parallel_read_safe": True}
