"""The JSON API, by its own description: operations with parameters and answers, and fields of bodies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from django.test import RequestFactory
from django.urls import resolve, reverse

from django_redsess import problems


def operations() -> Iterator[str]:
    """Return operations with their parameters, bodies and statuses; and the fields of each schema."""
    described = _described()
    for path, methods in described["paths"].items():
        for method, each in methods.items():
            name = f"{method.upper()} v1{path}"
            yield f"{name}: {each['operationId']}"
            yield from (f"{name}: {one['in']} {one['name']}{_must(one)}" for one in each["parameters"])
            for one in each.get("requestBody", {}).get("content", {}).values():
                yield f"{name}: body {_type(one['schema'])}"
            errors = [str(status) for status in each["responses"] if int(status) >= 400]
            yield f"{name}: errors {' '.join(sorted(errors))}"
            for status in each["responses"].keys() - {*errors, *map(int, errors)}:
                answers = [_type(one["schema"]) for one in each["responses"][status].get("content", {}).values()]
                yield " ".join((f"{name}:", str(status), *answers))
    for name, schema in described["components"]["schemas"].items():
        for field, one in schema["properties"].items():
            must = _must({"required": field in schema.get("required", ())})
            yield f"schema {name}.{field}: {_type(one)}{must}"
    for kind in problems.TYPES.values():
        yield f"problem type {kind.uri}"


def _described() -> dict[str, Any]:
    path = reverse("redsess_api:openapi-json")
    view, args, kwargs = resolve(path)
    answer: dict[str, Any] = json.loads(view(RequestFactory().get(path), *args, **kwargs).content)
    return answer


def _must(parameter: dict[str, Any]) -> str:
    return " (required)" if parameter.get("required") else ""


def _type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    if "enum" in schema:
        return "/".join(map(str, schema["enum"]))
    return str(schema.get("const") or schema.get("type", "any"))
