"""Users whose primary keys are no numbers: the model is fixed for a process, so each kind has one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testproject import servers

ROOT = Path(__file__).parents[2]

# Each begins a process and a database anew.
pytestmark = pytest.mark.slow


def drive(part: str, kind: str, partitions: int, server: servers.Server, folder: Path) -> subprocess.CompletedProcess:
    """Use a site whose users have keys of this kind, as ``part`` of the drive does."""
    changes = {
        "DJANGO_SETTINGS_MODULE": "tests.user_models.settings",
        "USER_KEY": kind,
        "PARTITIONS": str(partitions),
        "REDIS_URL": server.url,
        "REDSESS_DEMO_DIR": str(folder),
        "PYTHONUTF8": "1",
    }
    return subprocess.run(
        [sys.executable, "-m", "tests.user_models.drive", part],
        cwd=ROOT,
        env={**os.environ, **changes},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
    )


@pytest.mark.parametrize("part", ["shown", "ended", "protected", "deleted"])
@pytest.mark.parametrize("kind", ["uuid", "text"])
def test_primary_keys_of_any_kind_work_everywhere(
    server: servers.Server, part: str, kind: str, partitions: int, tmp_path: Path
) -> None:
    driven = drive(part, kind, partitions, server, tmp_path)
    assert driven.returncode == 0, driven.stdout + driven.stderr


def test_a_primary_key_above_255_bytes_is_refused_at_sign_in_by_an_error_that_says_so(
    server: servers.Server, partitions: int, tmp_path: Path
) -> None:
    driven = drive("too_long", "text", partitions, server, tmp_path)
    assert driven.returncode == 0, driven.stdout + driven.stderr
