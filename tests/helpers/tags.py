"""The template tags of viewed items, and how a test renders them."""

from __future__ import annotations

from typing import Any

from django.template import Context, engines
from django.test import RequestFactory

RECENT = "{% load viewed_items %}{% recently_viewed 3 as items %}"


MOST = "{% load viewed_items %}{% most_viewed 2 as items %}"


ITEMS = "{% for entry in items %}{{ entry.item }} {% endfor %}"


OBJECTS = "{% for entry in items %}{{ entry.object }} {% endfor %}"


def render(template: str, session: Any = None, **context: Any) -> str:
    if session is not None:
        context["request"] = RequestFactory().get("/")
        context["request"].session = session
    text: str = engines["django"].from_string(template).template.render(Context(context))
    return text
