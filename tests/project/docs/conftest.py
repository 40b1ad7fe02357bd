"""What the tests of the documentation share."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testproject.servers import Server
from tests.helpers import readthedocs
from tests.project.docs.pages import environment
from tests.project.docs.projects import write_all


@pytest.fixture
def shop(tmp_path: Path, server: Server) -> Path:
    """A new project with the settings of the tutorial. Only the address of the server is another."""
    make = [sys.executable, "-m", "django", "startproject", "shop", tmp_path]
    subprocess.run(make, check=True, env=environment())
    write_all(tmp_path, "tutorial.rst", server)
    return tmp_path


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, with what is installed here. ``make readthedocs`` builds it in a new environment."""
    if "REDSESS_SKIP_NOTHING" not in os.environ:
        pytest.importorskip("sphinx", reason="make docs installs it")
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patched:
        for name in ("http_proxy", "https_proxy"):
            patched.setenv(name, "http://127.0.0.1:1")
        built = readthedocs.build(folder)
    assert (built.returncode, built.stderr) == (0, "")
    return folder
