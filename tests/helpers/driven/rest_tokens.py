"""Tokens of Django REST framework let programs into the JSON API: by the function of the guide."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import path
from rest_framework.authtoken.models import Token

from django_redsess.contrib import api as contrib_api
from tests.helpers.api import get, status
from tests.project.docs.pages import DOCS, blocks

[GUIDE] = [block.text for block in blocks(DOCS / "howto/api-tokens.rst") if block.heading == "shop/rest_tokens.py"]
names: dict[str, Any] = {}
exec(GUIDE, names)

urlpatterns = [path("api/", contrib_api.urls(auth=names["by_token"])), path("admin/", admin.site.urls)]


def main() -> None:
    root = User.objects.create_superuser("root")
    key = Token.objects.create(user=root).key
    program = Client(enforce_csrf_checks=True, headers={"Authorization": f"Token {key}"})
    assert get(program, "counts")["signed_in"] == 0
    assert status(program, "post", "sessions/end", {"ids": ["x"]}) == 200
    for wrong in ("Token wrong", "Token", "Token a b", f"Bearer {key}", ""):
        assert status(Client(headers={"Authorization": wrong}), "get", "counts") == 401
    root.is_active = False
    root.save()
    assert status(program, "get", "counts") == 401
