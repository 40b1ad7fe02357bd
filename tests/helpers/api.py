"""Requests to the JSON API. Each response is checked against the OpenAPI file."""

import re
from functools import cache
from typing import Any

from django.test import Client

from django_redsess import problems

API = "/api/v1/"


def get(client: Client, path: str, **query: Any) -> Any:
    """Return the JSON of a successful GET."""
    answer = ask(client, "get", path, **query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def status(client: Client, method: str, path: str, body: Any = None, **query: Any) -> int:
    """The status of an answer. Errors say the same status in their problem details."""
    answer = ask(client, method, path, body, **query)
    if answer.status_code >= 400:
        problem = answer.json()
        assert problem["status"] == answer.status_code
        assert set(problem) == {"type", "title", "status", "detail"}
        assert problem["detail"]
    return int(answer.status_code)


def ask(client: Client, method: str, path: str, body: Any = None, **query: Any) -> Any:
    more = {} if body is None else {"data": body, "content_type": "application/json"}
    # Before the request: afterwards, this would give the store time to change.
    operations = _described_paths()
    answer = getattr(client, method)(API + path, query_params=query, **more)
    _check_response(operations, method, path, answer)
    if answer.headers.get("Content-Type") == "application/problem+json":
        problem = answer.json()
        kind = problems.TYPES[problem["type"].rpartition("#")[2]]
        status = answer.status_code if kind is problems.REFUSED_BY_SITE else kind.status
        assert problem["type"] == kind.uri
        assert (problem["status"], problem["title"], answer.status_code) == (status, kind.title, status)
    return answer


def _check_response(paths: dict[str, Any], method: str, path: str, answer: Any) -> None:
    """Fail if the file has this operation, and describes another response."""
    for described, operations in paths.items():
        if method in operations and re.fullmatch(re.sub(r"{\w+}", ".+", described), f"/{path.partition('?')[0]}"):
            responses = operations[method]["responses"]
            if answer.status_code in (404, 405) and str(answer.status_code) not in responses:
                return  # This site, or "/sessions/end", does not have the operation.
            assert str(answer.status_code) in responses, (method, described, answer.status_code)
            if "content" in responses[str(answer.status_code)]:
                kind = answer.headers["Content-Type"]
                _validator(described, method, answer.status_code, kind).validate(answer.json())
            else:
                assert answer.content == b""
            return


@cache
def _described_paths() -> dict[str, Any]:
    # Imported here: that takes a second of each process that collects the tests.
    import jsonschema  # noqa: F401

    paths: dict[str, Any] = _file()["paths"]
    # "/sessions/end" before "/sessions/{id}".
    return dict(sorted(paths.items(), key=lambda item: item[0].count("{")))


@cache
def _validator(path: str, method: str, status: int, kind: str) -> Any:
    from jsonschema import Draft202012Validator, FormatChecker

    schema = _file()["paths"][path][method]["responses"][str(status)]["content"][kind]["schema"]
    whole = {**schema, "components": _file()["components"]}
    return Draft202012Validator(whole, format_checker=FormatChecker())


@cache
def _file() -> dict[str, Any]:
    return description()


def description() -> dict[str, Any]:
    """Return the OpenAPI file."""
    described: dict[str, Any] = Client().get(API + "openapi.json").json()
    return described


def ids(answer: Any) -> list[str]:
    return [each["id"] for each in answer["sessions"]]


def walk(client: Client, path: str, **query: Any) -> list[str]:
    """The ids on all pages of a list."""
    answer = get(client, path, **query)
    found = ids(answer)
    while answer["next_cursor"]:
        answer = get(client, path, **query, cursor=answer["next_cursor"])
        found += ids(answer)
    return found
