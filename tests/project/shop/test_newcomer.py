"""What somebody does who reads the README for the first time: its settings in a new project, to the letter."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from testproject import servers
from tests.helpers.running import Running

ROOT = Path(__file__).parents[3]

Manage = Callable[..., subprocess.CompletedProcess[str]]


def pasteable() -> str:
    """The settings that the README says to add."""
    section = (ROOT / "README.rst").read_text().partition("Add it to your project\n===")[2]
    block = re.search(r"\.\. code-block:: python\n\n((?:    .*\n|\n)+)", section)
    assert block is not None
    return re.sub(r"^    ", "", block[1], flags=re.MULTILINE)


def environment() -> dict[str, str]:
    ours = ("DJANGO_SETTINGS_MODULE", "REDIS_URL", "PYTHONPATH")
    return {**{name: value for name, value in os.environ.items() if name not in ours}, "PYTHONUTF8": "1"}


@pytest.mark.django_db
def test_the_list_of_who_is_online_says_that_another_engine_keeps_the_sessions(settings, client, admin_user) -> None:
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
    client.force_login(admin_user)
    page = client.get("/admin/django_redsess/onlinesession/")
    assert ["SESSION_ENGINE" in str(message) for message in page.context["messages"]] == [True]


def test_a_command_that_can_not_reach_the_server_says_so_in_a_line(start: Callable[..., Running]) -> None:
    url = f"redis://127.0.0.1:{servers.free_port()}/0"
    commands = "clearsessions", "online", "endsessions --all --noinput", "cleansessions", "cleanviewed"
    started = [start(*command.split(), url=url, PATIENCE_SECONDS=0) for command in commands]
    for status, told in [command.ended() for command in started]:
        assert "Traceback" not in told
        # The first is for the log, which this site does not keep. Django's own clearsessions runs all checks before.
        *_, logged, error = told.splitlines()
        assert (status, logged.startswith("Sessions can't be reached: ")) == (1, True)
        assert ": The server that holds the sessions can't be reached." in error


@pytest.fixture
def project(tmp_path: Path, server: servers.Server) -> Path:
    """A new project with the README's settings at the end of its own. Only the server's address is another."""
    subprocess.run([sys.executable, "-m", "django", "startproject", "shop", tmp_path], check=True, env=environment())
    added, count = re.subn(r"redis://127\.0\.0\.1:6379/\d+", server.url, pasteable())
    assert count == 1
    with (tmp_path / "shop" / "settings.py").open("a") as settings:
        settings.write(f"\n{added}")
    return tmp_path


@pytest.fixture
def manage(project: Path) -> Manage:
    """Return a function that runs a command of the new project's manage.py."""

    def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=project,
            env={**environment(), **more},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_the_settings_of_the_readme_are_all_that_a_new_project_needs(manage: Manage) -> None:
    ran = manage("check", "--fail-level", "WARNING")
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_new_project_is_told_what_is_missing(manage: Manage, project: Path) -> None:
    package = project / "django_redis.py"
    package.write_text("raise ModuleNotFoundError(name='django_redis')")
    ran = manage("check")
    assert ran.returncode == 1
    assert "pip install django-redis" in ran.stderr.splitlines()[-1]
    package.unlink()
    with (project / "shop" / "settings.py").open("a") as settings:
        settings.write('\nINSTALLED_APPS.remove("django_redsess")\n')
    # No check of ours is known then. Django's admin imports each middleware in its own.
    for command in (["check"], ["shell", "-c", "import shop.wsgi"]):
        ran = manage(*command)
        assert ran.returncode == 1
        assert "ImproperlyConfigured: 'django_redsess' is not in INSTALLED_APPS" in ran.stderr.splitlines()[-1]
