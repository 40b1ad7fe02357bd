"""What version 1 of the JSON API promises is still served: programs, and clients made from its description, go on."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from copy import deepcopy
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

Description = dict[str, Any]

PROMISED: Description = json.loads(Path(__file__).with_name("promised.json").read_text(encoding="utf-8"))
"""The description as it was when version 1 was promised, without prose. It stays as it is."""

ALLOWED: dict[str, str] = {
    "list*Sessions query order value *": "orders are called as the fields",
    "listSignIns query new *": "this filter is called is_new_device, as the field",
    "listSignIns query since maxLength": "a date, or the parameter is left out",
    "listSignIns query until maxLength": "a date, or the parameter is left out",
    "blockUser 200 name": "the answer with the number of ended sessions has a name of its own",
    "getBlock 200.ended type": "only the answer to PUT has it",
    "*OwnSession* 200*.size *": "a user who learned it could find out secrets in the session",
    "*OwnSession* 200* name": "a user's own session is described by a schema of its own",
    "listOwnSessions 200.looked_through*": "nothing searches the own sessions",
    "describe*": "the description does not describe itself",
    "page*": "the description does not describe itself",
}
"""
What may differ, with the reason. A name is one of those that the test prints, and ``*`` stands for anything:
``"* query order value login_at": "orders are called as the fields"``.
"""

LIMITS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern", "default")
"""What a program that asks has to know, besides types and values."""

TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}


class Promises:
    """What a description says, as names with texts. Prose is left out, and so are ways to write the same."""

    def __init__(self, description: Description) -> None:
        self._description = description
        self.made: dict[str, str] = {}
        for place, methods in description["paths"].items():
            for method, operation in methods.items():
                self._of_operation(f"{method.upper()} {place}", operation)

    def _of_operation(self, url: str, operation: Description) -> None:
        name = operation["operationId"]
        needed = []
        self.made[name] = url
        # Generated clients have a module for each group.
        self.made[f"{name} group"] = ", ".join(operation["tags"])
        is_open = not operation.get("security", self._description.get("security"))
        self.made[f"{name} authentication"] = "none" if is_open else "needed"
        for parameter in map(self._resolved, operation.get("parameters", [])):
            where = f"{parameter['in']} {parameter['name']}"
            needed += [where] if parameter.get("required") else []
            self._of_schema(f"{name} {where}", parameter["schema"], is_asked=True)
        if body := self._resolved(operation.get("requestBody", {})):
            needed += ["body"] if body.get("required") else []
            self._of_content(f"{name} body", body, is_asked=True)
        self.made[f"{name} needs"] = ", ".join(sorted(needed)) or "nothing"
        for status, answer in operation["responses"].items():
            answer = self._resolved(answer)
            self._of_content(f"{name} {status}", answer)
            for header, described in answer.get("headers", {}).items():
                self._of_schema(f"{name} {status} header {header}", self._resolved(described)["schema"])

    def _of_content(self, name: str, holder: Description, *, is_asked: bool = False) -> None:
        content = holder.get("content", {})
        self.made[name] = ", ".join(sorted(content)) or "nothing"
        for described in content.values():
            self._of_schema(name, described["schema"], is_asked=is_asked)

    def _of_schema(self, name: str, schema: Description, *, is_asked: bool = False) -> None:
        """Note what a value is. ``is_asked``: the program sends it, and may send more than was promised."""
        said: dict[str, set[str]] = {"type": set()}
        for each in self._alternatives(schema):
            for key, value in self._said(each, is_asked=is_asked):
                said.setdefault(key, set()).add(value)
            for field, described in each.get("properties", {}).items():
                self._of_schema(f"{name}.{field}", described, is_asked=is_asked)
                # In an answer, what was optional may always be there now.
                is_required = field in each.get("required", [])
                if is_asked or is_required:
                    self.made[f"{name}.{field} is there"] = "always" if is_required else "or not"
            if "items" in each:
                self._of_schema(f"{name}.each", each["items"], is_asked=is_asked)
        for key, values in said.items():
            if values:
                self.made[f"{name} {key}"] = " or ".join(sorted(values))

    def _alternatives(self, schema: Description) -> Iterator[Description]:
        """Yield what a value may be, each with one type. A name of a schema is kept as its title."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            schema = {**schema, **self._resolved(schema), "title": name}
            del schema["$ref"]
        else:
            schema = {key: value for key, value in schema.items() if key != "title"}
        for key in ("anyOf", "oneOf", "allOf"):
            if key in schema:
                shared = {other: value for other, value in schema.items() if other != key}
                for each in schema[key]:
                    yield from self._alternatives({**shared, **each})
                return
        types = schema.get("type")
        for each in types if isinstance(types, list) else [types]:
            yield {**schema, "type": each}

    @staticmethod
    def _said(schema: Description, *, is_asked: bool) -> Iterator[tuple[str, str]]:
        values = schema.get("enum", [schema["const"]] if "const" in schema else [])
        for value in values:
            # One by one: there may be more of them now.
            yield f"value {value}", "known"
        kind = schema["type"] or (TYPES[type(values[0])] if values else "anything")
        if not (is_asked and kind == "null"):
            yield "type", kind
        if "title" in schema:
            # Generated clients have a class of this name.
            yield "name", schema["title"]
        for key in ("format", *(LIMITS if is_asked else ())):
            if kind != "null" and schema.get(key) is not None:
                yield key, json.dumps(schema[key])

    def _resolved(self, item: Description) -> Description:
        found = item
        while "$ref" in found:
            _, *path = found["$ref"].split("/")
            found = self._description
            for name in path:
                found = found[name]
        return found


def differences(served: Description, allowed: Collection[str] = ()) -> list[str]:
    """Return what is promised and not served any more, apart from what is allowed, in lines to read."""
    promised, now = Promises(PROMISED).made, Promises(served).made
    lost = {name: text for name, text in promised.items() if now.get(name) != text}
    # A field that was not there, and has to be sent now.
    lost |= {
        name: "not there"
        for name, text in now.items()
        if " body." in name and name.endswith(" is there") and text == "always" and name not in promised
    }
    return [
        f"{name}: {text}, and now {now.get(name, 'gone')}"
        for name, text in lost.items()
        if not any(fnmatchcase(name, pattern) for pattern in allowed)
    ]


@pytest.fixture
def served() -> Description:
    return Client().get("/api/v1/openapi.json").json()  # type: ignore[no-any-return]


def test_all_that_was_promised_is_served(served: Description) -> None:
    assert differences(served, ALLOWED) == []
    # Nothing is allowed that does not differ.
    assert [each for each in ALLOWED if not differences(served, ALLOWED.keys() - {each})] == []


def as_libraries_write(item: Any) -> Any:
    """Write a description as libraries do: with titles, one type each, and constants."""
    if isinstance(item, list):
        return [as_libraries_write(each) for each in item]
    if not isinstance(item, dict):
        return item
    written = {key: as_libraries_write(value) for key, value in item.items()}
    if isinstance(kinds := written.get("type"), list):
        rest = {key: written.pop(key) for key in list(written)}
        written = {"anyOf": [{**rest, "type": kind} if kind != "null" else {"type": kind} for kind in kinds]}
    if isinstance(values := written.get("enum"), list) and len(values) == 1:
        written["const"] = written.pop("enum")[0]
    if isinstance(written.get("type"), str) or "anyOf" in written:
        written["title"] = "A title"
    return written


@pytest.mark.unit
def test_another_way_to_write_the_same_is_no_difference() -> None:
    written = as_libraries_write(PROMISED)
    assert written["components"]["schemas"]["Session"]["properties"]["size"] == {
        "anyOf": [{"type": "integer"}, {"type": "null"}],
        "title": "A title",
    }
    assert differences(written) == []


@pytest.mark.unit
def test_what_is_new_is_no_difference() -> None:
    served = deepcopy(PROMISED)
    served["paths"]["/new"] = {"get": {**served["paths"]["/counts"]["get"], "operationId": "new"}}
    listed = served["paths"]["/sessions"]["get"]
    listed["parameters"].append({"name": "new", "in": "query", "schema": {"type": "string"}})
    listed["responses"]["418"] = {}
    served["components"]["schemas"]["Session"]["properties"]["new"] = {"type": "string"}
    served["components"]["schemas"]["EndSessions"]["properties"]["new"] = {"type": "string"}
    served["components"]["parameters"]["Order"]["schema"]["enum"].append("new")
    assert differences(served) == []


GONE = object()

CHANGES: list[tuple[str, str, Any]] = [
    ("countSessions: GET /counts, and now gone", "paths /counts", GONE),
    (
        "countSessions: GET /counts, and now POST /counts",
        "paths /counts",
        {"post": PROMISED["paths"]["/counts"]["get"]},
    ),
    ("countSessions authentication: needed, and now none", "paths /counts get security", []),
    ("countSessions 503: application/problem+json, and now gone", "paths /counts get responses 503", GONE),
    ("countSessions 200.guests type: integer, and now gone", "components schemas Counts properties guests", GONE),
    ("listSessions query limit type: integer, and now gone", "paths /sessions get parameters", []),
    ("listSessions needs: nothing, and now query q", "components parameters Search required", True),
    ("listSessions query limit maximum: 100, and now 50", "components parameters Limit schema maximum", 50),
    ("listSessions query active value 5m: known, and now gone", "components parameters Active schema enum", ["1h"]),
    (
        "endSessions body.ids type: array, and now string",
        "components schemas EndSessions properties ids type",
        "string",
    ),
    (
        "endSessions body.new is there: not there, and now always",
        "components schemas EndSessions",
        {"properties": {"new": {"type": "string"}}, "required": ["new"]},
    ),
    ("getSession 200.size is there: always, and now gone", "components schemas Session required", ["id"]),
    (
        "getSession 200.address type: string, and now null or string",
        "components schemas Session properties address type",
        ["string", "null"],
    ),
    ('getBlock 200.until format: "date-time", and now gone', "components schemas Block properties until format", GONE),
    (
        "reauthenticate 429 header Retry-After type: string, and now gone",
        "components responses TooMany headers Retry-After",
        GONE,
    ),
    (
        "getBlock 200 name: Block, and now gone",
        "paths /users/{id}/block get responses 200 content",
        {"application/json": {"schema": {"type": "object"}}},
    ),
]
"""What is printed, and the change that it names: of what, and to what."""


@pytest.mark.unit
@pytest.mark.parametrize(("line", "where", "value"), CHANGES, ids=[line for line, *_ in CHANGES])
def test_what_is_changed_is_named_until_it_is_allowed(line: str, where: str, value: Any) -> None:
    served = deepcopy(PROMISED)
    *path, last = where.split(" ")
    changed = served
    for name in path:
        changed = changed[name]
    if value is GONE:
        del changed[last]
    else:
        changed[last] = value
    assert line in differences(served)
    assert line not in differences(served, [line.partition(":")[0]])
