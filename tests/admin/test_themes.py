from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testproject import servers

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("theme", ["testproject.settings", "tests.themes.settings"], ids=["django", "unfold"])
def test_all_pages_work_under_a_theme(server: servers.Server, theme: str, tmp_path: Path) -> None:
    changes = {"DJANGO_SETTINGS_MODULE": theme, "REDIS_URL": server.url, "REDSESS_DEMO_DIR": str(tmp_path)}
    driven = subprocess.run(
        [sys.executable, "-m", "tests.themes.drive"],
        cwd=ROOT,
        env={**os.environ, **changes},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert driven.returncode == 0, driven.stderr
