"""
All public names of the package, a line each: what a minor version may add to, and may not change.

Each is collected from what is there. ``docs/reference/public-names.txt`` has them all, so that whoever changes one sees
it in the diff. ``python -m tests.helpers.public_names`` writes that file anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tests.helpers.public_names import api, python, site, source, store, telemetry

ROOT = Path(__file__).parents[3]
FILE = ROOT / "docs" / "reference" / "public-names.txt"

Lines = Mapping[str, list[str]]
"""The lines of each kind, in order."""

KINDS: Mapping[str, Callable[[], Iterable[str]]] = {
    "Python": python.names,
    "Signals": source.signals,
    "Settings": site.settings,
    "Environment variables": site.environment,
    "Ready-made messages": site.message_codes,
    "Commands": site.commands,
    "Counts of commands": site.counts,
    "Extras": site.extras,
    "pytest": source.fixtures,
    "Apps and models": site.models,
    "Permissions": site.permissions,
    "System checks": source.checks,
    "URLs": site.urls,
    "Templates": site.templates,
    "Template tags": site.template_tags,
    "Fields": site.fields,
    "JSON API": api.operations,
    "HTTP headers": source.headers,
    "HTTP status": source.statuses,
    "Log": source.log_lines,
    "Operations and events of observers": source.observed,
    "Prometheus": telemetry.prometheus,
    "OpenTelemetry": telemetry.opentelemetry,
    "Sentry": telemetry.sentry,
    "Redis": store.keys,
    "Redis commands": store.commands,
}
"""Which function collects the names of a kind."""

HEAD = """\
The public names of django-redsess. `make public-names` writes this file: don't edit it.
docs/explanation/versions.rst says what is promised of them.
"""


def collected() -> Lines:
    """Return what the tree has."""
    return {kind: collected_of(kind) for kind in KINDS}


def collected_of(kind: str) -> list[str]:
    """Return what the tree has of a kind."""
    return sorted(set(KINDS[kind]()))


def text_of(lines: Lines) -> str:
    """Return the text of the file that has these lines."""
    return HEAD + "".join("\n".join(["", kind, "=" * len(kind), *each, ""]) for kind, each in lines.items())


def read(text: str) -> Lines:
    """Return the lines that such a text has."""
    lines: dict[str, list[str]] = {}
    for block in text.split("\n\n")[1:]:
        kind, _, *names = block.splitlines()
        lines[kind] = names
    return lines


def differences(before: Lines, now: Lines) -> list[str]:
    """Return the lines that are gone, which begin with a minus, and those that are new, with a plus; of each kind."""
    found = []
    for kind in {**before, **now}:
        old, new = before.get(kind, []), now.get(kind, [])
        found += [f"- {kind}: {line}" for line in old if line not in new]
        found += [f"+ {kind}: {line}" for line in new if line not in old]
    return found
