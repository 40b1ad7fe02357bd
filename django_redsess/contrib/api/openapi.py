"""The description of the API: the OpenAPI file as it is, and as a page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache, wraps
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.utils import translation
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from django_redsess.accounts import views
from django_redsess.contrib.api.endpoints import SAFE, api_view
from django_redsess.contrib.api.problems import not_allowed

FILE = Path(__file__).with_name("openapi.json")


def _open_to_all(view: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Answer GET and HEAD with ``view``, whoever asks, and other methods with problem details."""

    @api_view
    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponse:
        return view(request) if request.method in SAFE else not_allowed(SAFE).response()

    answer.methods = SAFE  # type: ignore[attr-defined]
    return answer


@_open_to_all
def document(request: HttpRequest) -> HttpResponse:
    """Return the OpenAPI file, with this site's path and name of the cookie. It is open to all."""
    described = json.loads(FILE.read_bytes())
    described["servers"][0]["url"] = reverse("django_redsess_api:page").rstrip("/")
    described["components"]["securitySchemes"]["session"]["name"] = settings.SESSION_COOKIE_NAME
    return JsonResponse(described)


@_open_to_all
def page(request: HttpRequest) -> HttpResponse:
    """Show the OpenAPI file to people, in the frame of the self-service pages. It is open to all, and in English."""
    with translation.override("en"):
        context = {**_shown(), "file_url": reverse("django_redsess_api:openapi")}
        return views.page(request, "api.html", context)


@cache
def _shown() -> dict[str, Any]:
    """Return what the file says, as the template reads it."""
    described = json.loads(FILE.read_bytes())
    components = described["components"]
    groups = [
        {
            "title": tag["name"],
            "text": tag["description"],
            "operations": [
                _operation(path, method, operation, components)
                for path, methods in described["paths"].items()
                for method, operation in methods.items()
                if operation["tags"] == [tag["name"]]
            ],
        }
        for tag in described["tags"]
    ]
    schemas = [{"name": name, "fields": list(_fields(schema))} for name, schema in components["schemas"].items()]
    return {"title": described["info"]["title"], "text": _marked(described["info"]["description"])} | {
        "groups": groups,
        "schemas": schemas,
    }


def _operation(path: str, method: str, operation: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    def resolved(item: dict[str, Any]) -> Any:
        _, _, kind, name = item["$ref"].split("/") if "$ref" in item else ("", "", "", "")
        return components[kind][name] if name else item

    parameters = [resolved(each) for each in operation.get("parameters", [])]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    answers = {status: resolved(answer) for status, answer in operation["responses"].items()}
    return {
        "id": operation["operationId"],
        "method": method.upper(),
        "path": path,
        "summary": operation["summary"],
        "text": _marked(operation.get("description", "")),
        "parameters": [
            {"name": each["name"], "type": _type(each["schema"]), "text": _marked(each["description"])}
            for each in parameters
        ],
        "body": _type(body["schema"]) if body else "",
        "answers": [
            {
                "status": status,
                "text": _marked(answer["description"]),
                "types": [_type(each["schema"]) for each in answer.get("content", {}).values()],
            }
            for status, answer in answers.items()
        ],
    }


def _fields(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name, field in schema["properties"].items():
        optional = "" if name in schema["required"] else "optional"
        yield {"name": name, "type": _type(field), "optional": optional, "text": _marked(field.get("description", ""))}


def _type(schema: dict[str, Any]) -> SafeString:
    """Return the type in words, with a link to a schema that has a name."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return format_html('<a href="#{}">{}</a>', name, name)
    if "enum" in schema:
        return format_html_join(" or ", "<code>{}</code>", ((value,) for value in schema["enum"]))
    names = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    text = conditional_escape(" or ".join(names))
    if "items" in schema:
        text = format_html("{} of {}", text, _type(schema["items"]))
    if "minimum" in schema and "maximum" in schema:
        text = format_html("{} from {} to {}", text, schema["minimum"], schema["maximum"])
    return format_html("{}, {}", text, schema["format"]) if "format" in schema else text


def _marked(text: str) -> SafeString:
    """Return the text as HTML: what stands between backquotes is code."""
    parts = re.split(r"`([^`]*)`", text)
    return mark_safe(  # noqa: S308
        "".join(str(format_html("<code>{}</code>" if at % 2 else "{}", part)) for at, part in enumerate(parts))
    )
