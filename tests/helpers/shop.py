"""The shop with other URLs or templates than its own."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from django.contrib.auth.views import LoginView
from django.urls import path

import django_redsess
from testproject.urls import urlpatterns as of_shop

TEMPLATES = Path(django_redsess.__file__).parent / "templates"
"""The app's own."""


class AskedNobody:
    """The shop's URLs with a sign-in form that does not know the limit, as for the later of two sign-ins at once."""

    urlpatterns = [path("login/", LoginView.as_view(), name="login"), *of_shop]


def use_our_templates(settings: Any, *before: Path) -> None:
    """Let the app's own templates come before those with which the shop replaces them."""
    settings.TEMPLATES = copy.deepcopy(settings.TEMPLATES)
    settings.TEMPLATES[0]["DIRS"] = [*before, TEMPLATES]
