"""Questions to the JSON API, and what its answers say."""

from typing import Any

from django.test import Client

API = "/api/v1/"


def get(client: Client, path: str, **query: Any) -> Any:
    """What the API answers to a GET, which succeeds."""
    answer = client.get(API + path, query)
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
    return getattr(client, method)(API + path, query_params=query, **more)


def description() -> dict[str, Any]:
    """What the API says of itself, as OpenAPI has it."""
    described: dict[str, Any] = Client().get(API + "openapi.json").json()
    return described


def ids(answer: Any) -> list[str]:
    return [each["id"] for each in answer["sessions"]]


def walk(client: Client, path: str, **query: Any) -> list[str]:
    """The ids on all pages of a list."""
    answer = get(client, path, **query)
    found = ids(answer)
    while answer["next"]:
        answer = get(client, path, **query, cursor=answer["next"])
        found += ids(answer)
    return found
