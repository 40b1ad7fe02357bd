"""Servers that tests start in processes of their own use the store of the test, whenever they were started."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.conf import conf
from django_redsess.testing import own_store, travel
from testproject.servers import Server
from tests.helpers import every_operation
from tests.helpers.child import Child
from tests.helpers.running import run_python
from tests.helpers.store import pool

MEMBER = {"_auth_user_id": "7", "colour": "blue"}


def serve(pipe: Any) -> None:
    """Make a session for each value that comes, and reply how many there are."""
    # The connections are the parent's.
    pool().reset()
    while (colour := pipe.recv()) is not None:
        session = SessionStore()
        session.update({"_auth_user_id": "7", "colour": colour})
        session.save()
        pipe.send((session.session_key, online.count()))


@pytest.fixture(params=["fork", "new program"])
def make_elsewhere(request: pytest.FixtureRequest, server: Server) -> Iterator[Callable[[], Callable[[], Any]]]:
    """Return a function that starts a server. It returns one that makes a session there: the key, and their number."""
    stop: list[Callable[[], Any]] = []

    def start() -> Callable[[], Any]:
        if request.param == "fork":
            context = get_context("fork")
            here, there = context.Pipe()
            process = context.Process(target=serve, args=[there])
            process.start()
            stop.extend([lambda: here.send(None), process.join])
            return lambda: (here.send("blue"), here.recv())[1]
        child = Child(server)
        stop.append(child.close)
        run = lambda *asked: child.run(*asked, settings={}).result  # noqa: E731
        return lambda: (run(every_operation.create, MEMBER), run(every_operation.count))

    yield start
    for each in stop:
        each()


def names(redis: redis_py.Redis) -> list[bytes]:
    return [name for name in redis.keys() if name.startswith(b"{test-")]


@pytest.mark.slow
def test_a_server_of_the_class_is_in_the_store_of_each_test(make_elsewhere, new_session, redis) -> None:
    new_session("1")
    with own_store():
        # As setUpClass() does.
        make = make_elsewhere()
        for _ in range(2):
            with own_store():
                key, count = make()
                assert count == 1
                assert SessionStore(key)["colour"] == "blue"
                session = new_session("8")
                with travel(3600):
                    later, count = make()
                    assert count == 3
                    before, after = (online.get(SessionStore(each).sid) for each in (session.session_key, later))
                    assert before is not None
                    assert after is not None
                    assert 3500 < (after.last_seen_at - before.last_seen_at).total_seconds() < 3700
            assert names(redis) == []
        # What only a server has used is removed, too.
        make()
    assert names(redis) == []
    # Outside, the server is in the site's own store again, as this process is.
    assert make()[1] == online.count() == 2
    assert conf.PREFIX == "redsess"


@pytest.mark.slow
def test_a_folder_that_is_gone_leaves_a_site_as_it_is(tmp_path: Path, server: Server) -> None:
    program = "import django; django.setup(); from django_redsess.conf import conf; print(conf.PREFIX)"
    for folder in (tmp_path, tmp_path / "gone"):
        env = {"DJANGO_SETTINGS_MODULE": "testproject.settings", "REDSESS_FOLDER_OF_TESTS": str(folder)}
        assert run_python("-c", program, **env).strip() == "redsess"


SETTINGS = """
from testproject.settings import *

CACHES["sessions"]["LOCATION"] = {url!r}
DATABASES = {{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": {database!r}}}}}
DATABASES["default"]["TEST"] = {{"NAME": {database!r}}}
ROOT_URLCONF = "testproject.urls"
SECRET_KEY = "of tests"
REDSESS = {{}}
ALLOWED_HOSTS = ["*"]
INSTALLED_APPS += ["channels"]
ASGI_APPLICATION = "own_asgi.application"
STORAGES = {{"staticfiles": {{"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}}}
"""

ASGI = """
from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

application = ProtocolTypeRouter({"http": get_asgi_application()})
"""

TESTS = """
import http.client

from channels.testing import ChannelsLiveServerTestCase
from django.contrib.auth.models import User

from django_redsess import online
from django_redsess.testing import travel


class ServerTest(ChannelsLiveServerTestCase):
    serve_static = False

    def status(self):
        connection = http.client.HTTPConnection(self.host, self._port)
        connection.request("GET", "/admin/", headers={"Cookie": f"sessionid={self.client.cookies['sessionid'].value}"})
        status = connection.getresponse().status
        connection.close()
        return status

    def test_the_server_is_in_the_store_of_the_test(self):
        assert online.count() == 0
        self.client.force_login(User.objects.create_user("ada", is_staff=True))
        assert self.status() == 200
        with travel(40 * 24 * 3600):
            assert self.status() == 302
        assert online.count() == 1

    test_another_one_too = test_the_server_is_in_the_store_of_the_test
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fork", "spawn"])
@pytest.mark.parametrize("runner", ["pytest", "django"])
def test_the_live_server_of_channels_works_and_leaves_nothing(tmp_path, server: Server, kind: str, runner: str) -> None:
    database = str(tmp_path / "database.sqlite3")
    (tmp_path / "own_settings.py").write_text(
        SETTINGS.format(url=server.url, database=database)
        + f"import multiprocessing\nmultiprocessing.set_start_method({kind!r}, force=True)\n"
        + 'TEST_RUNNER = "runner.Runner"\n'
    )
    (tmp_path / "own_asgi.py").write_text(ASGI)
    (tmp_path / "runner.py").write_text(
        "from django.test.runner import DiscoverRunner\nfrom django_redsess.testing import SessionStoreRunnerMixin\n"
        "class Runner(SessionStoreRunnerMixin, DiscoverRunner):\n    pass\n"
    )
    (tmp_path / "test_live.py").write_text(TESTS)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env |= {"DJANGO_SETTINGS_MODULE": "own_settings", "PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}"}
    command = ["pytest", "-p", "no:cacheprovider"] if runner == "pytest" else ["django", "test"]
    ran = subprocess.run(
        [sys.executable, "-m", *command], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120
    )
    passed = re.search("2 passed", ran.stdout) if runner == "pytest" else re.search(r"Ran 2 tests.*\n\nOK", ran.stderr)
    assert passed, ran.stdout + ran.stderr
    assert server.client.keys() == []
