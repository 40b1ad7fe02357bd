"""The shop with other templates than its own."""

import copy
from pathlib import Path
from typing import Any

import django_redsess

TEMPLATES = Path(django_redsess.__file__).parent / "templates"
"""The app's own."""


def use_our_templates(settings: Any, *before: Path) -> None:
    """Let the app's own templates come before those with which the shop replaces them."""
    settings.TEMPLATES = copy.deepcopy(settings.TEMPLATES)
    settings.TEMPLATES[0]["DIRS"] = [*before, TEMPLATES]
