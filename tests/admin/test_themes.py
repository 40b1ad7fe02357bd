"""Every page of the admin works under its own looks and under those of django-unfold."""

from __future__ import annotations

from pathlib import Path

import pytest

from testproject import servers
from tests.support.driving import drive

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("theme", ["tests.site.settings", "tests.site.settings.unfold"], ids=["django", "unfold"])
def test_all_pages_work_under_a_theme(server: servers.Server, theme: str, tmp_path: Path) -> None:
    drive("theme", settings=theme, server=server, folder=tmp_path)
