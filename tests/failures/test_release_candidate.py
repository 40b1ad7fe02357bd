"""
The release candidate of 1.0 beside 1.0: its wheel and the tree, on one server and one database.

They can't share a store: each refuses that of the other in words, and leaves it as it is. They can share a server under
two prefixes, and 1.0 takes over the database of the sign-in history.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.other_release import Release, release_candidate
from tests.helpers.running import ROOT
from tests.helpers.store import dump

pytestmark = pytest.mark.slow

SETTINGS = """
import os
DEBUG = False
SECRET_KEY = "the key of golden stores"
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django_redsess", *os.environ["APPS"].split()]
MIDDLEWARE = [
    "django_redsess.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
]
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}, "sessions": {
    "BACKEND": "django_redis.cache.RedisCache",
    "LOCATION": os.environ["REDIS_URL"],
    "OPTIONS": {"SOCKET_TIMEOUT": 5, "SOCKET_CONNECT_TIMEOUT": 5},
}}
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["DATABASE"]}}
SESSION_ENGINE = os.environ["ENGINE"]
SESSION_CACHE_ALIAS = "sessions"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
REDSESS = eval(os.environ["REDSESS"])
"""

BEGIN = """
import io, json, os
import django
django.setup()
from contextlib import redirect_stderr, redirect_stdout
from django.conf import settings
from django.core import checks
from django.core.management import call_command
import redis
from django_redsess import online, viewed
from django_redsess.backend import SessionStore
client = redis.Redis.from_url(os.environ["REDIS_URL"])
keys = json.loads(os.environ["KEYS"])
"""
"""What each release has: all that follows uses names that both know."""

FILL = """
from tests.golden.contents import fill, store_of
with store_of(settings.REDSESS):
    print(json.dumps(fill(client)))
"""

USE = """
def command(*words, **options):
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        call_command(*words, verbosity=0, **options)

def save(name):
    session = SessionStore(keys[name])
    session["colour"] = "red"
    session.save()

def create():
    session = SessionStore()
    session["colour"] = "blue"
    session.save()

ways = {
    "load": lambda: SessionStore(keys["user"]).load(),
    "load an encrypted one": lambda: SessionStore(keys["user, encrypted"]).load(),
    "save": lambda: save("user"),
    "save a guest": lambda: save("guest"),
    "create": create,
    "sign out": lambda: SessionStore(keys["user"]).flush(),
    "count": online.count,
    "list": online.sessions,
    "blocks": online.blocked,
    "totals": online.totals,
    "end": lambda: online.end(*[each[:2] + "a" * 18 for each in keys.values()]),
    "end all": online.end_all,
    "view": lambda: viewed.record(SessionStore(keys["user"]), "lamp"),
    "popular": viewed.popular,
    "online": lambda: command("online"),
    "endsessions": lambda: command("endsessions", all=True, interactive=False),
    "cleansessions": lambda: command("cleansessions"),
    "cleansessions --check": lambda: command("cleansessions", check=True),
    "cleansessions --repair": lambda: command("cleansessions", repair=True),
    "cleanviewed": lambda: command("cleanviewed"),
}
said = {}
for name, way in ways.items():
    try:
        way()
    except Exception as error:
        said[name] = f"{type(error).__name__}: {error}"
    else:
        said[name] = ""
print(json.dumps(said))
"""

CHECK = """
found = checks.run_checks(include_deployment_checks=False, databases=["default"])
print(json.dumps({each.id: f"{each.msg} {each.hint}" for each in found}))
"""

LOOK = """
with redirect_stdout(io.StringIO()) as printed:
    call_command("cleansessions", check=True)
found = {name: dict(SessionStore(key).load()) for name, key in keys.items() if "own key" not in name}
users = sorted(each.user_id for each in online.sessions())
print(json.dumps([users, {name: sorted(data) for name, data in found.items()}, " 0 disagree" in printed.getvalue()]))
"""


@pytest.fixture(scope="module")
def candidate(tmp_path_factory) -> Release:
    release = release_candidate(tmp_path_factory.mktemp("candidate"))
    if release is None:
        # A continuous integration clones the whole history.
        assert "REDSESS_SKIP_NOTHING" not in os.environ, "the clone lacks the commit of the release candidate"
        pytest.skip("git does not have the commit of the release candidate")
    assert release.name == "1.0rc1"
    return release


Run = Callable[..., Any]


@pytest.fixture
def run(server, redis, tmp_path: Path) -> Iterator[Run]:
    """Return a function that runs code with the package in a folder, in a process of its own, and reads its JSON."""
    (tmp_path / "settings_of_both.py").write_text(SETTINGS)

    def run(
        folder: Path,
        code: str,
        *,
        keys: dict[str, str] | None = None,
        engine: str = "django_redsess.backend",
        apps: str = "",
        **redsess: Any,
    ) -> Any:
        environment = {
            "DJANGO_SETTINGS_MODULE": "settings_of_both",
            "PYTHONPATH": str(tmp_path),
            "PYTHONUTF8": "1",
            "REDIS_URL": server.url,
            "DATABASE": str(tmp_path / "database"),
            "KEYS": json.dumps(keys),
            "ENGINE": engine,
            "APPS": apps,
            "REDSESS": repr({"PREFIX": "golden", "PARTITIONS": 1, **redsess}),
        }
        imported = f"import django_redsess\nassert django_redsess.__path__ == [{str(folder / 'django_redsess')!r}]\n"
        ran = subprocess.run(
            [sys.executable, "-c", imported + BEGIN + code],
            cwd=folder,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout.splitlines()[-1])

    yield run
    redis.flushall()


def both_ways(candidate: Release) -> dict[str, tuple[Path, str, Path, str]]:
    return {
        "1.0 meets a store of the candidate": (candidate.folder, "5", ROOT, "6"),
        "the candidate meets a store of 1.0": (ROOT, "6", candidate.folder, "5"),
    }


@pytest.mark.parametrize("way", ["1.0 meets a store of the candidate", "the candidate meets a store of 1.0"])
def test_each_refuses_the_store_of_the_other_and_leaves_it(candidate, run, redis, way: str) -> None:
    writes, there, reads, here = both_ways(candidate)[way]
    seen = run(writes, LOOK, keys=run(writes, FILL))
    # A look moves when sessions were last seen.
    redis.flushall()
    keys = run(writes, FILL)
    before = dump(redis)
    said = run(reads, USE, keys=keys)
    assert len(said) >= 20
    for name, text in said.items():
        assert f"in format {there}, and this release reads and writes format {here} only" in text, (name, text)
        assert "begin anew, with everybody signed out, under another REDSESS['PREFIX']" in text, (name, text)
    assert f"in format {there}" in run(reads, CHECK)["django_redsess.E045"]
    assert lasting(dump(redis)) == lasting(before)
    assert run(writes, LOOK, keys=keys) == seen


def lasting(dumped: dict[bytes, bytes | None]) -> dict[bytes, bytes | None]:
    """Leave out the places of requests that wait for a lock: they run out after two seconds."""
    return {name: value for name, value in dumped.items() if b":lock:" not in name}


@pytest.mark.parametrize("partitions", [1, 4])
def test_sessions_of_the_candidate_do_not_move_here(candidate, run, redis, partitions: int) -> None:
    keys = run(candidate.folder, FILL)
    before = dump(redis)
    options: dict[str, Any] = {
        "engine": "django_redsess.contrib.moving.growing",
        "apps": "django_redsess.contrib.moving",
        "PREFIX": "next",
        "PARTITIONS": partitions,
        "MOVE_FROM": {"PREFIX": "golden", "PARTITIONS": 1},
    }
    move = USE.replace("ways = {", "ways = {'move': lambda: command('movesessions'), **{")
    move = move.replace('    "create": create,\n', "").replace("}\nsaid", "}}\nsaid")
    move = move.replace("SessionStore", "Moving").replace("import Moving", "import SessionStore")
    move = f"from importlib import import_module\nMoving = import_module(settings.SESSION_ENGINE).SessionStore\n{move}"
    said = run(ROOT, move, keys=keys, **options)
    refused = {name for name, text in said.items() if "under the prefix 'golden' are in format 5" in text}
    assert {"move", "load", "load an encrypted one", "save", "end all"} <= refused, said
    found = dump(redis)
    assert {name: value for name, value in lasting(found).items() if name.startswith(b"{golden")} == lasting(before)
    # Nothing has come.
    assert not [name for name in found if name.startswith(b"{next") and name.endswith((b":login", b":expire"))]
    assert "format 5" in " ".join(run(ROOT, CHECK, keys=keys, **options).values())


def test_under_two_prefixes_neither_disturbs_the_other(candidate, run, redis) -> None:
    folders = {"golden": ROOT, "candidate": candidate.folder}
    keys = {prefix: run(folder, FILL, PREFIX=prefix) for prefix, folder in folders.items()}
    seen = {prefix: run(folder, LOOK, keys=keys[prefix], PREFIX=prefix) for prefix, folder in folders.items()}
    assert all(is_in_order for *_, is_in_order in seen.values())
    for prefix, folder in folders.items():
        found = run(folder, CHECK, PREFIX=prefix)
        assert not [each for each in found if each.startswith("django_redsess.E")], found
    # Each does all that it can do, in its own store: among it, to end all sessions, and to repair.
    for prefix, other in (("golden", "candidate"), ("candidate", "golden")):
        before = {name: value for name, value in dump(redis).items() if name.startswith(b"{%s" % other.encode())}
        said = run(folders[prefix], USE, keys=keys[prefix], PREFIX=prefix)
        assert set(said.values()) == {""}, said
        after = {name: value for name, value in dump(redis).items() if name.startswith(b"{%s" % other.encode())}
        assert lasting(after) == lasting(before)
        redis.flushall()
        keys = {prefix: run(folder, FILL, PREFIX=prefix) for prefix, folder in folders.items()}


HISTORY = "django.contrib.sessions django_redsess.contrib.history"

WRITE_ROWS = """
call_command("migrate", verbosity=0)
from django.contrib.auth.models import User
from tests.golden.rows import MODELS, OBJECTS, described
User.objects.create(id=11, username="alice")
for each in OBJECTS:
    type(each)._default_manager.bulk_create([each])
print(json.dumps({model._meta.db_table: described(model._default_manager.order_by("pk")) for model in MODELS}))
"""

READ_ROWS = """
call_command("migrate", verbosity=0)
from tests.golden.rows import MODELS, described
rows = {model._meta.db_table: described(model._default_manager.order_by("pk")) for model in MODELS}
with redirect_stdout(io.StringIO()) as exported:
    call_command("history", export="alice")
with redirect_stdout(io.StringIO()):
    call_command("history", prune=True)
from django_redsess.contrib.history.models import SignIn
left = [f"{each.address} {each.user_agent} {each.stored_message}".strip() for each in SignIn.objects.all()]
print(json.dumps([rows, exported.getvalue(), left]))
"""

SIGN_IN = """
from django.contrib.auth import login
from django.contrib.auth.models import User
from django.http import HttpRequest
request = HttpRequest()
request.session = SessionStore()
login(request, User.objects.get(), backend="django.contrib.auth.backends.ModelBackend")
request.session.save()
print(json.dumps(SessionStore(request.session.session_key).load()["_auth_user_id"]))
"""

NEW_NAMES = {
    "by": "ended_by",
    "message": "stored_message",
    "device": "device_cookie",
    "ended_is_about": "ended_at_is_approximate",
    "is_told": "is_notified",
}
"""Columns of sign-ins that have other names in 1.0."""


def test_the_database_of_the_candidate_is_taken_over(candidate, run) -> None:
    written = run(candidate.folder, WRITE_ROWS, apps=HISTORY)
    found, exported, left = run(ROOT, READ_ROWS, apps=HISTORY, HISTORY_DAYS=1)
    assert set(found) == set(written)
    for table, rows in written.items():
        names = NEW_NAMES if table.endswith("signin") else {"message": "stored_message"}
        for before, after in zip(rows, found[table], strict=True):
            renamed = {names.get(name, name): value for name, value in before.items()}
            assert {name: after[name] for name in renamed} == renamed
    assert all(word in exported for word in ("Schönen Feierabend.", "2001:db8::7", "Firefox"))
    # The latest row of a user stays, without what it says about the user. The other one has not ended.
    assert left == ["", ""]
    # A process of the candidate that still runs can't write into it. Its users sign in.
    assert run(candidate.folder, SIGN_IN, apps=HISTORY, PREFIX="candidate") == "11"
