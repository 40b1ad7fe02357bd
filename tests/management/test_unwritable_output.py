"""
Commands whose output can't be written: a full disk, a stream that is closed, a reader who is gone, few letters.

A command that acts does what it was asked to do; one that does nothing but write stops. Both say so in one line on
stderr, and by their exit status. Processes of their own show what Python does at its end.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from io import StringIO
from pathlib import Path
from pkgutil import iter_modules
from typing import IO, Any

import pytest
import redis as redis_py
from django.contrib.auth.models import Group, User
from django.contrib.sessions.backends.db import SessionStore as DatabaseSession
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command, get_commands, load_command_class

from django_redsess import online
from django_redsess.contrib.history.management import commands as of_history
from django_redsess.contrib.history.models import SignIn
from django_redsess.contrib.moving.management import commands as of_moving
from django_redsess.management import commands as own_commands
from django_redsess.management.terminal import UNWRITTEN, CommandWithExamples
from tests.contrib.history.rows import row
from tests.helpers.accounts import count
from tests.helpers.running import ROOT, wait_until
from tests.helpers.store import have_views, keyspace, make_due, stored

Redis = redis_py.Redis

ACTS: dict[str, Callable[[Redis], bool]] = {
    "endsessions jörg --noinput": lambda redis: count(1) == 0,
    "endsessions --all --json --noinput": lambda redis: online.count() == 0,
    "blockuser jörg bob --for 1h": lambda redis: len(online.blocked()) == 2,
    "cleansessions --verbosity 2": lambda redis: stored(redis) == 2,
    "cleanviewed --max-items 1 --noinput --json": lambda redis: redis.zcard(keyspace().partitions[0].viewed) == 1,
    "supportgroup": lambda redis: Group.objects.count() == 1,
    "history --repair": lambda redis: not SignIn.objects.filter(ended_at=None).exists(),
    "movesessions --verbosity 2": lambda redis: stored(redis) == 4,
}
"""Each command that does something, and whether it is done."""

WRITES = [
    *("online", "online --csv", "online --json", "blockuser --list", "history --export jörg"),
    "history --export jörg --json",
]
"""What does nothing but write."""

KINDS = ["disk is full", "disk is full for each line", "it is closed", "nobody reads"]


def fill(redis: Redis, new_session: Callable[..., Any]) -> None:
    """Have a session of user 1 and of user 2, one that is due, and two viewed items."""
    redis.flushall()
    for user_id in ("1", "2"):
        new_session(user_id)
    make_due(redis, new_session(colour="blue").sid)
    have_views(redis, {"lamp": 3, "vase": 1})


@pytest.fixture
def world(db, redis, new_session) -> Callable[[], None]:
    """Return a function that makes something to do for each command. The users are 1 and 2, with a session each."""
    User.objects.create_user(pk=1, username="jörg")
    User.objects.create_user(pk=2, username="bob")

    def make() -> None:
        fill(redis, new_session)
        for model in (Group, SignIn, Session):
            model.objects.all().delete()
        row(User.objects.get(pk=1))
        old = DatabaseSession()
        old["basket"] = 1
        old.save()

    return make


@contextmanager
def unwritable(kind: str) -> Iterator[IO[str]]:
    ear, mouth = os.pipe()
    os.close(ear)
    path: str | int = os.dup(mouth) if kind == "nobody reads" else "/dev/full"
    stream = open(path, "w", encoding="ascii", buffering=1 if "line" in kind else -1)  # noqa: SIM115
    if kind == "it is closed":
        stream.close()
    yield stream
    # Nor can what is left in its buffer.
    with suppress(OSError):
        stream.close()
    os.close(mouth)


def moving(line: str, settings: Any) -> None:
    """Have the site move its sessions here if the command does so."""
    if line.startswith("movesessions"):
        settings.SESSION_ENGINE = "django_redsess.contrib.moving"
        settings.REDSESS = {**settings.REDSESS, "MOVE_FROM": "django.contrib.sessions.backends.db", "MOVES": True}


def test_each_command_is_asked_here_and_has_the_base_class() -> None:
    names = {each.name for package in (own_commands, of_history, of_moving) for each in iter_modules(package.__path__)}
    assert {line.partition(" ")[0] for line in (*ACTS, *WRITES)} == names
    for name in names:
        assert isinstance(load_command_class(get_commands()[name], name), CommandWithExamples)


@pytest.mark.parametrize("line", ACTS)
def test_what_was_asked_is_done_and_then_one_line_says_that_it_could_not_be_told(
    world, redis, settings, line: str
) -> None:
    moving(line, settings)
    for kind in KINDS:
        world()
        with unwritable(kind) as out, pytest.raises(CommandError) as raised:
            call_command(*shlex.split(line), stdout=out, stderr=StringIO())
        assert raised.value.returncode == UNWRITTEN, kind
        assert str(raised.value).isprintable()
        assert ACTS[line](redis), kind


@pytest.mark.parametrize("line", WRITES)
def test_what_does_nothing_but_write_stops_and_one_line_says_so(world, redis, line: str) -> None:
    for kind in KINDS:
        world()
        with unwritable(kind) as out:
            if kind == "nobody reads":
                # The reader has seen enough, as head has.
                call_command(*shlex.split(line), stdout=out, stderr=StringIO())
                continue
            with pytest.raises(CommandError) as raised:
                call_command(*shlex.split(line), stdout=out, stderr=StringIO())
        assert raised.value.returncode == UNWRITTEN, kind


def test_a_question_that_can_not_be_shown_is_a_no(world, answer) -> None:
    world()
    answer("y\n")
    with unwritable("disk is full") as out, pytest.raises(CommandError, match="Nothing was ended") as raised:
        call_command("endsessions", "--all", stdout=out)
    assert raised.value.returncode == UNWRITTEN
    assert online.count() == 2


PREPARE = """
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.core.management import call_command
call_command("migrate", verbosity=0)
for name in ("jörg", "bob"):
    User.objects.create_user(name)
from tests.contrib.history.rows import row
row(User.objects.get(pk=1))
session = SessionStore()
session["basket"] = 1
session.save()
"""

MANAGE = """
import sys
from django.conf import settings
settings.REDSESS["MOVES"] = True
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""

DATABASE = {
    "supportgroup": "SELECT count(*) = 1 FROM auth_group",
    "history": "SELECT count(*) = 0 FROM redsess_history_signin WHERE ended_at IS NULL",
}
"""For commands that change the database of their site: a question whose answer is 1 when that is done."""

WAYS: dict[str, dict[str, Any]] = {
    "full": {"to": ">/dev/full"},
    "full, each write": {"to": ">/dev/full", "PYTHONUNBUFFERED": "1"},
    "both full": {"to": ">/dev/full 2>&1"},
    "closed": {"to": ">&-"},
    "all closed": {"to": "<&- >&- 2>&-"},
    "nobody reads": {"to": ""},
    "few letters": {"to": "", "PYTHONIOENCODING": "ascii"},
}
"""Where the shell leads the streams of the process, and its environment."""


class Site:
    """The site of testproject, with a database of its own. Its users are 1, jörg, and 2, bob."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url

    def popen(self, line: str, way: str) -> subprocess.Popen[bytes]:
        """Start the command with the streams of this ``way``."""
        environment = {**WAYS[way], "REDSESS_DEMO_DIR": str(self.folder), "REDIS_URL": self.url, "HISTORY": "1"}
        to = environment.pop("to")
        if line.startswith("movesessions"):
            environment["MOVE"] = "db"
        ear, mouth = os.pipe()
        reader = {"stdout": mouth} if way == "nobody reads" else {"stdout": subprocess.PIPE}
        os.close(ear)
        environment |= {"DJANGO_SETTINGS_MODULE": "testproject.settings", "PYTHONDONTWRITEBYTECODE": "1"}
        started = subprocess.Popen(
            ["sh", "-c", f'exec "$@" {to}', "sh", sys.executable, "-c", MANAGE, *shlex.split(line), "--skip-checks"],
            cwd=ROOT,
            env={**os.environ, "PYTHONUTF8": "1", **environment},
            stderr=subprocess.PIPE,
            **reader,
        )
        os.close(mouth)
        return started

    def run(self, line: str, way: str) -> tuple[int, bytes, bytes]:
        """Run the command. Return its exit status, and what could be written to stdout and stderr."""
        with self.popen(line, way) as process:
            stdout, stderr = process.communicate(timeout=120)
        return process.returncode, stdout or b"", stderr

    def is_done(self, redis: Redis, line: str) -> bool:
        if (question := DATABASE.get(line.partition(" ")[0])) is None:
            return ACTS[line](redis)
        with closing(sqlite3.connect(self.folder / "db.sqlite3")) as database:
            return database.execute(question).fetchone() == (1,)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = Path(tmp_path_factory.mktemp("site"))
    environ = {**os.environ, "REDSESS_DEMO_DIR": str(folder), "HISTORY": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "testproject/manage.py", "shell", "--verbosity=0", "-c", PREPARE]
    subprocess.run(command, cwd=ROOT, env=environ, check=True, capture_output=True, timeout=120)
    return folder


@pytest.fixture
def site(made, server, tmp_path) -> Site:
    shutil.copytree(made, tmp_path / "site")
    return Site(tmp_path / "site", server.url)


def assert_told(ended: tuple[int, bytes, bytes], way: str) -> None:
    """Assert that the exit status says it, and one line where there is a stream for it."""
    status, stdout, stderr = ended
    assert status == UNWRITTEN
    assert stdout == b""
    lines = stderr.decode().splitlines()
    if way in ("both full", "all closed"):
        assert lines == []
    else:
        # With --json, stderr has what is for a person, too.
        assert [line.partition(":")[0] for line in lines if not line.startswith("Ended ")] == ["CommandError"]


def pairs(lines: Iterable[str]) -> list[tuple[str, str]]:
    """Return each of these lines with a full disk, and the first one in each way."""
    first, *others = lines
    return [*((first, way) for way in WAYS), *((line, "full") for line in others)]


@pytest.mark.slow
@pytest.mark.parametrize(("line", "way"), pairs(ACTS))
def test_a_process_does_what_it_was_asked_to_do(redis, new_session, site, line: str, way: str) -> None:
    fill(redis, new_session)
    ended = site.run(line, way)
    assert site.is_done(redis, line)
    if way != "few letters":
        assert_told(ended, way)
        return
    assert (ended[0], ended[2]) == (0, b"")
    assert ended[1].isascii()


@pytest.mark.slow
@pytest.mark.parametrize(("line", "way"), [*pairs(WRITES), ("online --help", "closed"), ("online --help", "full")])
def test_a_process_that_does_nothing_but_write_stops(redis, new_session, site, line: str, way: str) -> None:
    fill(redis, new_session)
    ended = site.run(line, way)
    if way in ("few letters", "nobody reads"):
        assert (ended[0], ended[2]) == (0, b"")
        assert ended[1].isascii()
    elif line == "online --help":
        assert (ended[0], b"Traceback" in ended[2]) == (UNWRITTEN, False)
    else:
        assert_told(ended, way)


@pytest.mark.slow
def test_two_processes_do_what_they_were_asked_and_a_third_stops(redis, new_session, site) -> None:
    fill(redis, new_session)
    lines = {"endsessions jörg --noinput": "closed", "blockuser bob --for 1h": "full, each write", "online": "full"}
    with ThreadPoolExecutor(3) as threads:
        for way, ended in zip(lines.values(), threads.map(site.run, lines, lines.values()), strict=True):
            assert_told(ended, way)
    assert online.count() == 0
    assert [block.user_id for block in online.blocked()] == ["2"]


@pytest.mark.slow
def test_a_service_goes_on_while_its_disk_is_full(redis, new_session, site) -> None:
    with site.popen("cleansessions --forever --verbosity 2", "full, each write") as process:
        for _ in range(3):
            make_due(redis, new_session(colour="blue").sid)
            # The cleaner sleeps until the next deadline that it knows.
            redis.lpush(keyspace().partitions[0].wake, "earlier")
            wait_until(lambda: stored(redis) == 0)
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == UNWRITTEN
    assert stderr.count(b"\n") == 1
