"""A site in a process of its own, which is used there as its visitors and an administrator do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from testproject.servers import Server

ROOT = Path(__file__).parents[2]


def drive(*part: str, settings: str, server: Server, folder: Path, **changes: str) -> None:
    """Run this part of tests/helpers/driven under these settings; ``changes`` are those of its environment."""
    env = {"DJANGO_SETTINGS_MODULE": settings, "REDIS_URL": server.url, "REDSESS_DEMO_DIR": str(folder)}
    driven = subprocess.run(
        [sys.executable, "-m", "tests.helpers.driven", *part],
        cwd=ROOT,
        env={**os.environ, "PYTHONUTF8": "1", **env, **changes},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
    )
    assert driven.returncode == 0, driven.stdout + driven.stderr
