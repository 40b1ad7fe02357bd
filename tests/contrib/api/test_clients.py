"""Clients that generators make from the description compile, and do what programs do: as the guide has it."""

import compileall
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from django_redis import get_redis_connection

from django_redsess.accounts.reauthentication import RECENT_SECONDS
from django_redsess.backend import SessionStore
from tests.helpers.accounts import PASSWORD, sign_in
from tests.helpers.store import make_older
from tests.project.docs.pages import DOCS, blocks

pytestmark = pytest.mark.slow

CLIENTS = Path(__file__).with_name("clients")
GUIDE = list(blocks(DOCS / "howto" / "json.rst"))
GENERATE = [block.text for block in GUIDE if block.language == "sh"]


def later(request: HttpRequest) -> HttpResponse:
    """Make the session of the request so old that the password is asked for again."""
    key = request.session.session_key
    make_older(get_redis_connection("sessions"), SessionStore(key).sid or "", RECENT_SECONDS + 1)
    return HttpResponse()


urlpatterns = [path("later/", later), path("", include("testproject.urls"))]


@pytest.fixture
def walk(live_server: Any, history: None, settings: Any, alice: User) -> list[str]:
    """What a walk is told: the site, an administrator's name and password, and a user who has three sessions."""
    settings.ROOT_URLCONF = __name__
    User.objects.create_superuser("root", password=PASSWORD)
    for _ in range(3):
        sign_in(alice)
    return [live_server.url, "root", PASSWORD, str(alice.pk)]


def run(folder: Path, *command: str) -> None:
    """Run a program in ``folder``. It fails as the test does."""
    # The generators are in the environment of the tests.
    env = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def generate(folder: Path, site: str, program: str, *more: str) -> None:
    """Run the guide's command of ``program`` for this site, and write the code that the guide has beside it."""
    [command] = [each for each in GENERATE if program in each]
    run(folder, *command.replace("http://127.0.0.1:8000", site).split(), *more)
    for block in GUIDE:
        if block.heading in ("sessions.ts", "support.py"):
            (folder / block.heading).write_text(block.text, encoding="utf-8")


def test_a_client_in_python_compiles_and_does_what_administrators_do(walk: list[str], tmp_path: Path) -> None:
    # Without it, the generator formats what it has made, with a program that may be missing.
    (tmp_path / "config.yml").write_text("post_hooks: []")
    generate(tmp_path, walk[0], "openapi-python-client", "--fail-on-warning", "--config", "config.yml")
    assert compileall.compile_dir(tmp_path / "sessions_api", quiet=1)
    shutil.copy(CLIENTS / "walk.py", tmp_path)
    run(tmp_path, sys.executable, "walk.py", *walk)


@pytest.fixture(scope="module")
def node_modules() -> Path:
    """The packages of package-lock.json, which are installed again when it changes."""
    if not (shutil.which("node") and shutil.which("npm")):
        if "REDSESS_SKIP_NOTHING" in os.environ:
            pytest.fail("nodejs and npm are not installed")
        pytest.skip("nodejs and npm are not installed")
    kept, lock = Path(sys.prefix) / "clients", CLIENTS / "package-lock.json"
    installed = kept / "node_modules" / ".package-lock.json"
    if not installed.exists() or (kept / lock.name).read_bytes() != lock.read_bytes():
        kept.mkdir(exist_ok=True)
        for each in (CLIENTS / "package.json", lock):
            shutil.copy(each, kept)
        run(kept, "npm", "ci", "--no-audit", "--no-fund")
    return kept / "node_modules"


def test_a_client_in_typescript_compiles_and_does_what_a_front_end_does(
    walk: list[str], node_modules: Path, tmp_path: Path
) -> None:
    for name in ("package.json", "tsconfig.json", "walk.ts"):
        shutil.copy(CLIENTS / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(node_modules)
    generate(tmp_path, walk[0], "openapi-typescript")
    run(tmp_path, "npx", "tsc")
    run(tmp_path, "node", "compiled/walk.js", *walk)
