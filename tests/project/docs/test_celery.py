"""The tasks of the guide "Celery": in the process that calls them, and in a worker that a real server brokers."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from testproject.servers import Server
from tests.helpers.running import wait_until
from tests.helpers.store import stored
from tests.project.docs.pages import DOCS, blocks, environment
from tests.project.docs.projects import manage, write_all

pytestmark = pytest.mark.slow

GUIDE = DOCS / "howto" / "celery.rst"

EAGER = {"CELERY_TASK_ALWAYS_EAGER": True, "CELERY_TASK_EAGER_PROPAGATES": True}

BEGIN = """
import json, time
from datetime import datetime, timedelta, UTC
from django.conf import settings
from django.contrib.auth.models import User
from django_redsess.backend import SessionStore
from django_redsess.contrib.history.models import SignIn

def begin(user, seconds):
    session = SessionStore()
    session["_auth_user_id"] = str(user.pk)
    session.set_expiry(seconds)
    session.save()

user, other = (User.objects.create_user(name) for name in ("ada", "bob"))
for seconds in (1, 1, 3600):
    begin(user, seconds)
begin(other, 3600)
# Two sign-ins of long ago. The latest row of each user stays.
for days in (200, 199):
    SignIn.objects.create(user=other, login_ms=round((datetime.now(UTC) - timedelta(days=days)).timestamp() * 1000))
time.sleep(1.1)
"""

SEND = """
from django.conf import settings
from shop.celery import app
app.loader.import_default_modules()
for entry in settings.CELERY_BEAT_SCHEDULE.values():
    app.tasks[entry["task"]].apply_async(**entry["options"])
"""

TELL = """
import json
from django_redsess.contrib.history.models import SignIn
rows = SignIn.objects.order_by("pk").values_list("user__username", "reason", "ended_by", "stored_message")
print(json.dumps(list(rows)))
"""

ALL_DONE = [["ada", "expired", "", ""]] * 2 + [["ada", "kicked", "", "Your account was reported as stolen."]]
ALL_DONE += [["bob", "", "", ""]]
"""The rows of the history in the end: of the other user, the session goes on, and the old rows are gone."""


@pytest.fixture
def project(shop: Path, server: Server) -> Iterator[Path]:
    """A project with the history and what the guide adds."""
    write_all(shop, "howto/celery.rst", server)
    with (shop / "shop" / "settings.py").open("a") as settings:
        settings.write('\nINSTALLED_APPS += ["django_redsess.contrib.history"]\n')
    run(shop, "migrate", "--verbosity=0")
    yield shop
    server.client.flushall()


def run(project: Path, *command: str) -> str:
    ran = manage(project, *command)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def snippet() -> str:
    [text] = [block.text for block in blocks(GUIDE) if not block.heading]
    return "from django.contrib.auth.models import User\nuser = User.objects.get(username='ada')\n" + text


def rows(project: Path) -> Any:
    return json.loads(run(project, "shell", "--no-imports", "--command", TELL).splitlines()[-1])


def test_tasks_do_their_work_where_they_are_called(project: Path, redis) -> None:
    with (project / "shop" / "settings.py").open("a") as settings:
        settings.writelines(f"{name} = {value}\n" for name, value in EAGER.items())
    run(project, "shell", "--command", BEGIN + SEND)
    assert stored(redis) == 2
    run(project, "shell", "--command", snippet())
    assert stored(redis) == 1
    assert rows(project) == ALL_DONE


@pytest.fixture
def worker(project: Path, server: Server, monkeypatch) -> Iterator[Path]:
    """A worker of Celery. Its broker is another database of the server. Return the file of its log."""
    monkeypatch.setenv("CELERY_BROKER_URL", f"redis://127.0.0.1:{server.port}/2")
    log = project / "worker.log"
    command = [sys.executable, "-m", "celery", "-A", "shop", "worker", "--pool=solo", "--loglevel=INFO"]
    with log.open("wb") as file:
        process = subprocess.Popen(command, cwd=project, env=environment(), stdout=file, stderr=file)
    try:
        wait_until(lambda: process.poll() is not None or " ready." in log.read_text(), seconds=60)
        yield log
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()


def test_a_worker_does_what_beat_sends_and_what_a_site_sends(project: Path, worker: Path, redis) -> None:
    run(project, "shell", "--command", BEGIN)
    assert stored(redis) == 4
    run(project, "shell", "--command", SEND + snippet())
    wait_until(lambda: worker.read_text().count(" succeeded in ") == 3, seconds=60)
    assert stored(redis) == 1
    assert rows(project) == ALL_DONE
