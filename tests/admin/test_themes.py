"""Every page of the admin works with Django's own looks, and with those of django-unfold and django-jazzmin."""

from __future__ import annotations

from pathlib import Path

import pytest

from testproject import servers
from tests.helpers.driving import drive

pytestmark = pytest.mark.slow


SETTINGS = {
    "django": "tests.helpers.site.settings",
    "unfold": "tests.helpers.site.settings.unfold",
    "jazzmin": "tests.helpers.site.settings.jazzmin",
}


@pytest.mark.parametrize("theme", SETTINGS)
def test_all_pages_work_under_a_theme(server: servers.Server, theme: str, tmp_path: Path) -> None:
    drive("theme", settings=SETTINGS[theme], server=server, folder=tmp_path)
