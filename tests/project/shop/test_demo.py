import ast
import json
import os
import re
import signal
import sqlite3
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

import pytest
import redis
import requests

from testproject.people import GUESTS, MORE_BROWSERS, PASSWORD, SHOPPERS
from testproject.servers import free_port
from tests.helpers.demo import ROOT, Demo, environment, running

PUBLIC = {
    *("accounts", "admin", "backend", "contrib", "exceptions", "middleware", "models", "online"),
    *("signals", "viewed"),
}
"""The modules of the package that a site may import."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with running(tmp_path_factory.mktemp("demo")) as demo:
        yield demo


@pytest.mark.slow
def test_demo_serves_the_shop_and_its_static_files(demo: Demo) -> None:
    page = requests.get(f"{demo.url}/")
    assert page.status_code == 200
    styles = re.findall(r'<link[^>]+href="(/static/[^"]+)"', page.text)
    assert styles
    assert [requests.get(demo.url + style).status_code for style in styles] == [200] * len(styles)
    assert requests.get(f"{demo.url}/moving/").status_code == 404


@pytest.mark.slow
@pytest.mark.parametrize(("cluster", "number"), [("", signal.SIGTERM), ("3", signal.SIGINT)])
def test_demo_stops_all_that_it_started(tmp_path: Path, cluster: str, number: signal.Signals) -> None:
    with running(tmp_path, **({"CLUSTER": cluster} if cluster else {})) as demo:
        stored, pids = [], []
        for url in demo.redis_url.split(","):
            with redis.Redis.from_url(url) as node:
                pids.append(node.info("server")["process_id"])
                if node.role()[0] == b"master":
                    stored.append(sum(node.hlen(name) for name in node.keys("*:login")))
        assert (len(pids), len(stored)) == ((6, 3) if cluster else (1, 1))
        assert sum(stored) == len(SHOPPERS) + len(MORE_BROWSERS) + GUESTS
        assert 0 not in stored
        # In a second terminal, which knows no more of the demo than its port.
        env = environment(demo.directory, PORT=demo.env["PORT"])
        command = [sys.executable, "testproject/manage.py", "cleansessions", "--check"]
        check = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=40)
        assert check.returncode == 0, check.stderr
        command = [sys.executable, "testproject/manage.py", "online", "--json"]
        listed = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=40).stdout
        assert any(json.loads(line)["place"] for line in listed.splitlines())
        os.killpg(demo.process.pid, number)
        assert demo.process.wait(timeout=20) == 0
        told = demo.output.read_text()
        assert (told.endswith("The demo has stopped.\n"), "Traceback" in told) == (True, False), told
        assert not demo.state_file.exists()
        for pid in pids:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)
        with pytest.raises(requests.ConnectionError):
            requests.get(demo.url)


@pytest.mark.slow
def test_sessions_of_the_database_move_while_an_administrator_looks_on(tmp_path: Path) -> None:
    everybody = len(SHOPPERS) + len(MORE_BROWSERS) + GUESTS + 1
    with running(tmp_path, MOVE="db") as demo, requests.Session() as browser:

        def post(path: str, **form: str) -> tuple[int, ...]:
            """Return how many sessions are only in the database, how many are here, and how many rows there are."""
            form["csrfmiddlewaretoken"] = browser.cookies["csrftoken"]
            answer = browser.post(demo.url + path, form)
            assert "Signed in as <b>admin</b>" in answer.text
            [rows] = database.execute("SELECT count(*) FROM django_session").fetchone()
            return (*map(int, re.findall(r"<dd>(\d+)</dd>", answer.text)), rows)

        database = sqlite3.connect(tmp_path / "db.sqlite3")
        browser.get(f"{demo.url}/login/")
        assert post("/login/", username="admin", password="admin", next="/moving/") == (everybody, 0, everybody)
        cookie = browser.cookies["sessionid"]
        # From another step: nothing is done.
        assert post("/moving/", to="finish") == (everybody, 0, everybody)
        for to in ("2", "1", "2"):
            assert post("/moving/", to=to) == (everybody - 1, 1, everybody)
        assert post("/moving/", to="rest") == (0, everybody, everybody)
        assert post("/moving/", to="finish") == (0, everybody, 0)
        assert browser.cookies["sessionid"] == cookie
        database.close()


@pytest.mark.slow
@pytest.mark.parametrize("https", ["", "1"])
def test_sessions_can_be_bound_to_their_device_over_https_only(tmp_path: Path, https: str) -> None:
    with running(tmp_path, HTTPS=https) as demo:
        told = demo.output.read_text()
        assert ("certificate-errors-spki-list=" in told, "HTTPS=1 make demo" in told) == (bool(https), not https)
        [url] = re.findall(r"The shop +(\S+)/\n", told)
        assert url == (demo.url.replace("http:", "https:") if https else demo.url)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        browser = build_opener(HTTPSHandler(context=context), HTTPCookieProcessor(), NoRedirect())
        page = browser.open(f"{url}/login/").read().decode()
        [token] = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
        form = urlencode({"username": "amelia", "password": PASSWORD, "csrfmiddlewaretoken": token})
        headers = {"Referer": f"{url}/login/"}
        with pytest.raises(HTTPError) as answered:
            browser.open(Request(f"{url}/login/", form.encode(), headers))
        with answered.value as answer:
            offers = answer.headers.get_all("Secure-Session-Registration", [])
        assert (answer.status, len(offers)) == (302, 1 if https else 0)
        if https:
            # Somebody who forgets the s is no error in the log.
            with pytest.raises(requests.ConnectionError):
                requests.get(demo.url)
        assert "Traceback" not in demo.output.read_text()


class NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *args: Any) -> None:
        return None


@pytest.mark.slow
@pytest.mark.parametrize(
    "env",
    [
        *({"PORT": "70000"}, {"PARTITIONS": "3"}, {"LIMIT_POLICY": "end_newest"}, {"CLUSTER": "2"}, {"MOVE": "cache"}),
        {"HTTPS": "yes"},
        {"CLUSTER": "3", "REDIS_URL": "redis://127.0.0.1:1/0"},
        {"REDIS_URL": "redis://:hush@127.0.0.1:1/0,redis://:hush@127.0.0.1:2/0"},
    ],
    ids=" ".join,
)
def test_demo_says_what_is_wrong_and_shows_no_password(tmp_path: Path, env: dict[str, str]) -> None:
    command = [sys.executable, "-m", "testproject.demo"]
    env_of_demo = environment(tmp_path, **{"PORT": str(free_port()), **env})
    demo = subprocess.run(command, cwd=ROOT, env=env_of_demo, capture_output=True, text=True, timeout=40)
    assert (demo.returncode, demo.stderr.startswith("Error: "), "Traceback" in demo.stderr) == (1, True, False)
    assert [name for name in env if name not in demo.stderr] == []
    assert "hush" not in demo.stderr


def test_the_shop_imports_public_modules_only() -> None:
    imports = [
        node
        for path in (ROOT / "testproject").rglob("*.py")
        # They write what the engine would not: a past.
        if path.name not in ("past.py", "sign_ins.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "django_redsess"
    ]
    names = {f"{node.module}.{name.name}".split(".")[1] for node in imports for name in node.names}
    assert {"accounts", "online", "viewed"} <= names <= PUBLIC
