"""A reader follows the how-to guides word by word, one after the other, in one new project."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import django
import pytest
import requests
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from testproject.servers import Server, free_port
from tests.helpers.running import wait_until
from tests.project.docs.pages import DOCS, Block, blocks, environment

GUIDES = DOCS / "howto"

QUICK = ("install", "timeouts", "devices", "self-service")
"""The guides that are followed in ``make test``, in this order. All are followed in ``make test-all``."""

ORDER = (
    *QUICK,
    *(
        "blocking",
        "traces",
        "metrics",
        "accounts",
        "async",
        "events",
        "ended-users",
        "history",
        "new-devices",
        "viewed-items",
    ),
    *(
        "signing-in-as",
        "admin",
        "networks",
        "admin-pages",
        "who-was-here",
        "gdpr",
        "places",
        "proxies",
        "confirmed-ends",
    ),
    *(
        "json",
        "api-tokens",
        "testing",
        "csp",
        "sockets",
        "device-bound",
        "server",
        "upgrade",
        "cleaning",
        "secret-key",
        "celery",
        "deploying",
    ),
)

ELSEWHERE = {
    "acl": "no blocks: the rights are tried in tests/failures/test_least_permissions.py",
    "allauth": "a project with allauth: see test_guides.py",
    "by-header": "a project with Django REST framework: see test_by_header.py",
    "cluster": "its servers are elsewhere: see tests/failures/test_clusters.py",
    "custom-users": "a project begins with its user model: see tests/accounts/test_user_models.py",
    "drf": "a project with Django REST framework: see test_drf.py",
    "ending": "no blocks",
    "encryption": "its keys are elsewhere: see tests/session/test_encryption.py",
    **dict.fromkeys(
        ("from-django-redis-sessions", "from-qsessions", "from-user-sessions"),
        "for a site with that package: see tests/contrib/moving/test_packages.py",
    ),
    "from-session-objects": "snippets beside those of Django: see test_session_objects.py",
    "growing": "its servers are elsewhere: see tests/contrib/moving",
    "index": "no guide",
    "languages": "no blocks",
    "leaving": "the last that a project does: see test_guides.py",
    "managed": "no blocks: services of others",
    "moving": "for a site that has sessions: see tests/contrib/moving",
    "sentinel": "its servers are elsewhere: see tests/failures/test_sentinel.py",
    "tenants": "needs django-tenants and PostgreSQL: see tests/failures/test_two_sites.py",
    "troubleshooting": "for a site that fails",
    "verify": "of a release: see tests/project/release/test_command.py",
}
"""The guides that are not followed here, with the reason."""

NOT_FOLLOWED = {
    "ini": "units of systemd",
    "javascript": "scripts of pages: those of json are run in tests/browser/test_json.py",
    "json": "what is answered",
    "nginx": "settings of a proxy",
    "sh": "commands of generators: run in tests/contrib/api/test_clients.py",
    "text": "settings of a server",
    "typescript": "the client of a front end: run in tests/contrib/api/test_clients.py",
    "yaml": "settings of containers and of Prometheus",
}
"""The languages of blocks that are not followed here, with what they are."""

NOT_RUN = (
    "docker run",
    "brew install",
    "python -m pip",
    "pip install",
    "redis-cli",
    "SITE=",
    "API=",
    "token()",
    "ask",
    "curl",
    "cursor=",
)
NOT_RUN += ("id=", "ids=", "user=", "block=", "umask", "python -c")
"""Commands that install something, or are for the demo: see test_json.py."""

OWN = {
    "install": {"settings": 'INSTALLED_APPS += ["shop"]\nALLOWED_HOSTS = ["*"]'},
    "signing-in-as": {"settings": 'INSTALLED_APPS += ["hijack"]'},
    # What "curl" fetches.
    "networks": {
        "names": "User.objects.get_or_create(username='ada')",
        "file": ("tor-exits.txt", "198.51.100.7\n2001:db8::/32  # a network\n"),
    },
    "admin-pages": {"settings": 'INSTALLED_APPS.insert(0, "unfold")'},
    "viewed-items": {
        "urls": """
from django.http import HttpResponse
shop = [path("product/<slug:slug>/", lambda request, slug: HttpResponse(slug), name="product")]
urlpatterns.append(path("", include((shop, "shop"))))
""",
        "names": "product = Product.objects.create(slug='lamp')",
    },
    "accounts": {"names": "from django.contrib.auth.models import Group; Group.objects.create(name='Acme')"},
    "events": {"names": "from django_redsess import cleaning; cleaning.take_sample()"},
    # Without a worker: a task runs where it is sent.
    "celery": {"settings": "CELERY_TASK_ALWAYS_EAGER = True"},
    "sockets": {
        "settings": "",
        "urls": "from shop.streams import stream\nurlpatterns.append(path('stream/', stream))",
        "names": """
import asyncio, logging, threading
from django_redsess import online
log, send = logging.getLogger("shop"), lambda message: asyncio.sleep(0)
queue = asyncio.Queue()
threading.Timer(0.2, lambda: online.end(sid)).start()
""",
    },
}
"""What a reader has besides: settings, URLs, and names that the guide's snippets use."""

MODELS = """
from django.db import models

class Product(models.Model):
    slug = models.SlugField()

class Article(models.Model):
    slug = models.SlugField()
"""

ON_THE_SITE = """
import ast, asyncio, importlib, inspect, json, sys
import django
django.setup()
from django.contrib.auth import login
from django.contrib.auth.models import User
from django.core.management import call_command
from django.template import engines
from django.test import RequestFactory
from django.utils.module_loading import import_string
from django_redsess.backend import SessionStore
from shop.models import Article, Product

given = json.load(sys.stdin)
call_command("check", fail_level=given["level"])
for name in given["modules"]:
    importlib.import_module(name)
for text in given["templates"]:
    engines["django"].from_string(text)
user = User.objects.create_user(f"ada-{User.objects.count()}", is_staff=True)
request = RequestFactory().get("/")
request.session = session = SessionStore()
login(request, user, backend="django.contrib.auth.backends.ModelBackend")
request.user = user
session.save()
sid = session.sid
exec(given["names"])
for text in given["snippets"]:
    ran = eval(compile(text, given["page"], "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), dict(globals()))
    if inspect.iscoroutine(ran):
        asyncio.run(ran)
"""


class Reader:
    """Somebody who does what the guides say. Only the address of the server is another."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder, self.server = folder, server
        self._run("-m", "django", "startproject", "shop", ".")
        (folder / "shop" / "models.py").write_text(MODELS)
        self.followed = 0

    def follow(self, page: str) -> None:
        own: dict[str, Any] = OWN.get(page, {})
        self._add("settings", own.get("settings", ""))
        if "file" in own:
            name, text = own["file"]
            (self.folder / name).write_text(text)
        self._page, self._modules, self._snippets, self._templates = page, list[str](), list[str](), list[str]()
        for block in blocks(GUIDES / f"{page}.rst"):
            self.followed += block.language not in NOT_FOLLOWED
            if block.language == "python":
                self._take_python(block)
            elif block.language == "html+django":
                self._templates.append(block.text)
            elif block.language == "console":
                self._try_out()
                self._type(block.text)
            else:
                assert block.language in NOT_FOLLOWED, (page, block.language)
        self._add("urls", own.get("urls", ""))
        self._try_out(level="WARNING")

    def _take_python(self, block: Block) -> None:
        text = re.sub(r"(redis|valkey)://127\.0\.0\.1:(6379/1|6399/0)", self.server.url, block.text)
        name, _, where = block.heading.partition(", ")
        if not block.heading:
            self._snippets.append(text)
        elif name in ("settings.py", "shop/settings.py", "urls.py", "shop/urls.py"):
            compile(text, name, "exec")
            if where in ("", "at the end"):
                self._add(Path(name).stem, text)
        elif name.startswith("shop/"):
            module = name.removesuffix(".py").replace("/", ".")
            path = self.folder / name
            if module in self._modules and not where:
                # A choice: this one, or the one above.
                self._try_out()
            with path.open("a" if where else "w") as file:
                file.write(f"\n{text}")
            if "settings" not in name:
                self._modules.append(module)
        else:
            compile(text, name, "exec")

    def _add(self, module: str, text: str) -> None:
        with (self.folder / "shop" / f"{module}.py").open("a") as file:
            file.write(f"\n{text}\n")

    def _type(self, text: str) -> None:
        for line in re.findall(r"^\$ (.*)", text, re.MULTILINE):
            if not line.startswith(NOT_RUN):
                python, *arguments = line.split()
                assert python == "python", line
                # The reader is asked at a terminal.
                self._run(*arguments, *["--noinput"] * ("endsessions" in arguments))

    def _try_out(self, level: str = "ERROR") -> None:
        names = OWN.get(self._page, {}).get("names", "")
        given = {"modules": self._modules, "snippets": self._snippets, "templates": self._templates, "names": names}
        if self._page == "install":
            # The reader's own tables.
            self._run("manage.py", "migrate", "--run-syncdb")
        else:
            self._run("-c", ON_THE_SITE, given=json.dumps({**given, "page": self._page, "level": level}))
        self._modules, self._snippets, self._templates = [], [], []

    def _run(self, *command: str, given: str = "") -> None:
        env = {**environment(), "DJANGO_SETTINGS_MODULE": "shop.settings"}
        env |= {"PYTHONPATH": os.pathsep.join([str(self.folder), str(DOCS.parent)])}
        ran = subprocess.run(
            [sys.executable, "-W", "ignore", *command],
            input=given,
            cwd=self.folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        where = getattr(self, "_page", "startproject")
        assert ran.returncode == 0, f"{where}: {command if command[0] != '-c' else given}\n{ran.stdout}"


@pytest.fixture
def reader(tmp_path: Path, server: Server) -> Iterator[Reader]:
    yield Reader(tmp_path, server)
    # The guides choose prefixes.
    server.client.flushall()


def test_each_guide_is_followed_or_says_why_not() -> None:
    there = [path.stem for path in GUIDES.glob("*.rst")]
    assert sorted(there) == sorted([*ORDER, *ELSEWHERE])
    languages = {block.language for name in ORDER for block in blocks(GUIDES / f"{name}.rst")}
    assert languages - {"python", "console", "html+django"} <= NOT_FOLLOWED.keys()


def test_no_guide_overwrites_what_another_has_set() -> None:
    for path in sorted(GUIDES.glob("*.rst")):
        if path.stem == "install":
            continue
        for block in blocks(path):
            if block.language == "python":
                assert not re.search(
                    r"^(REDSESS|INSTALLED_APPS|MIDDLEWARE|urlpatterns) = ", block.text, re.MULTILINE
                ) or ("hijack" in block.heading), path.name
    [settings] = [block.text for block in blocks(GUIDES / "install.rst") if block.language == "python"]
    assert settings in [block.text for block in blocks(DOCS / "tutorial.rst")]


@pytest.mark.slow
def test_the_first_guides_work_one_after_the_other(reader: Reader) -> None:
    for page in QUICK:
        reader.follow(page)
    assert reader.followed > 10


@pytest.fixture
def site(reader: Reader) -> Iterator[str]:
    """The address of a site that has followed all guides, as runserver serves it."""
    for page in ORDER:
        if page != "csp" or django.VERSION >= (6,):
            reader.follow(page)
    assert reader.followed > 60
    port = free_port()
    with (reader.folder / "log").open("w") as log:
        env = {**environment(), "PYTHONPATH": str(DOCS.parent)}
        command = [sys.executable, "-W", "ignore", "manage.py", "runserver", "--noreload", str(port)]
        process = subprocess.Popen(command, cwd=reader.folder, env=env, stdout=log, stderr=log)

    def answers() -> bool:
        assert process.poll() is None, (reader.folder / "log").read_text()
        with suppress(requests.ConnectionError):
            return bool(requests.get(f"http://127.0.0.1:{port}/ready", timeout=10).json()["ready"])
        return False

    try:
        wait_until(answers)
        yield f"127.0.0.1:{port}"
    finally:
        # Not terminate(): the server waits for its streams, and one may still be open.
        process.kill()
        process.wait()


@pytest.mark.slow
def test_all_guides_work_one_after_the_other_and_sockets_and_streams_close(site: str, reader: Reader) -> None:
    make = "User.objects.create_user('eve', password='correct-horse', is_staff=True)"
    reader._run("manage.py", "shell", "--command", f"from django.contrib.auth.models import User; {make}")
    browser = requests.Session()
    browser.trust_env = False
    browser.get(f"http://{site}/admin/login/")
    form = {"username": "eve", "password": "correct-horse", "csrfmiddlewaretoken": browser.cookies["csrftoken"]}
    assert browser.post(f"http://{site}/admin/login/", form, allow_redirects=False, timeout=10).status_code == 302
    assert "This device" in browser.get(f"http://{site}/account/sessions/", timeout=10).text
    headers = {"Cookie": f"sessionid={browser.cookies['sessionid']}"}
    stream = browser.get(f"http://{site}/stream/", stream=True, timeout=30)
    lines = stream.iter_lines()
    assert next(lines) == b'data: {"price": 7}'
    with connect(f"ws://{site}/chat/", additional_headers=headers, origin=f"http://{site}") as socket:
        socket.send('{"text": "hello"}')
        assert json.loads(socket.recv(30)) == {"type": "said", "text": "hello"}
        reader._run("manage.py", "endsessions", "eve", "--noinput")
        assert json.loads(socket.recv(30))["type"] == "session_ended"
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(30)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4401
    assert b"event: session_ended" in list(lines)
