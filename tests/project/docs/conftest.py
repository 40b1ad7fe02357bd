"""What the tests of the documentation share."""

import subprocess
import sys
from pathlib import Path

import pytest

from testproject.servers import Server
from tests.project.docs.pages import environment
from tests.project.docs.projects import write_all


@pytest.fixture
def shop(tmp_path: Path, server: Server) -> Path:
    """A new project with the settings of the tutorial. Only the address of the server is another."""
    make = [sys.executable, "-m", "django", "startproject", "shop", tmp_path]
    subprocess.run(make, check=True, env=environment())
    write_all(tmp_path, "tutorial.rst", server)
    return tmp_path
