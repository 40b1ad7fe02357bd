"""The guides for sites with another package's sessions: each is followed word by word, by a site that people use."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest
import requests

from testproject.people import CHROME_ANDROID as ANDROID
from testproject.people import CHROME_MAC
from testproject.people import FIREFOX_LINUX as FIREFOX
from testproject.servers import Server, free_port
from tests.helpers.running import wait_until
from tests.project.docs.pages import DOCS, ROOT, blocks, environment

# Other packages need not know each release of Django at once.
pytestmark = pytest.mark.slow

SETTINGS = """
from pathlib import Path

SECRET_KEY = "shop"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "shop.urls"
LOGIN_URL = "/sign-in/alice/"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
USE_TZ = True
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": Path(__file__).parent / "db.sqlite3",
        "OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE"},
    }
}
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {"context_processors": ["django.template.context_processors.request"]},
    }
]
"""

PROXY = """
MIDDLEWARE.insert(0, "shop.urls.behind_proxy")
"""

URLS = """
from django.contrib.auth import authenticate, login
from django.http import JsonResponse
from django.urls import include, path
from django.utils import timezone


def behind_proxy(get_response):
    def forwarded(request):
        request.META["REMOTE_ADDR"] = request.headers["X-Forwarded-For"]
        return get_response(request)

    return forwarded


def look(request):
    return JsonResponse({"user": request.user.get_username(), "basket": request.session.get("basket", [])})


def sign_in(request, name):
    login(request, authenticate(request, username=name, password="correct-horse"))
    return look(request)


def add(request, item):
    request.session["basket"] = [*request.session.get("basket", []), item]
    return look(request)


def old_list(request):
    found = request.user.session_set.filter(expire_date__gt=timezone.now())
    return JsonResponse({each.ip: each.user_agent for each in found})


def end_on(request, address):
    request.user.session_set.filter(ip=address).delete()
    return look(request)
"""

OWN_URLS = """
urlpatterns += [
    path("", look),
    path("sign-in/<name>/", sign_in),
    path("add/<item>/", add),
    path("old/", old_list),
    path("end-on/<address>/", end_on),
]
"""

CREATE_USERS = """
from django.contrib.auth.models import User
for name in ("alice", "bob"):
    User.objects.create_user(name, password="correct-horse")
"""

ROWS = {
    "redis-sessions": "from redis_sessions.session import SessionStore as S; print(len(S().server.keys('session:*')))",
    "qsessions": "from qsessions.models import Session; print(Session.objects.count())",
    "user-sessions": "from user_sessions.models import Session; print(Session.objects.count())",
}
GUIDES = {"redis-sessions": "from-django-redis-sessions"}


class Site:
    """A site as a guide finds it. It changes as the guide says, and types what the guide types."""

    def __init__(self, folder: Path, guide: str, server: Server) -> None:
        self.folder, self._server = folder, server
        self._edits: list[tuple[str, str, str]] = []
        self._commands: list[tuple[str, str]] = []
        for block in blocks(DOCS / "howto" / f"{guide}.rst"):
            if block.language == "diff":
                file, _, step = block.heading.partition(", ")
                self._edits.append((file, step, self._own(block.text)))
            elif block.language == "console":
                self._commands += re.findall(r"^\$ (.*)\n((?:[^$\n].*\n)*)", block.text, re.MULTILINE)
        (folder / "shop").mkdir()
        for file, head, rest in (("shop/settings.py", SETTINGS, PROXY), ("shop/urls.py", URLS, OWN_URLS)):
            # What the first change of this file takes for given, which needs not be all of a list.
            given, _ = next(hunk for name, _, diff in self._edits if name == file for hunk in hunks(diff))
            if file == "shop/urls.py":
                given += "]\n"
            (folder / file).write_text(head + given + rest)

    def edit(self, step: str) -> None:
        """Change what the guide changes in this step."""
        changes = [edit for edit in self._edits if edit[1] == step]
        assert changes, step
        for edit in changes:
            file, _, diff = edit
            text = (self.folder / file).read_text()
            for before, after in hunks(diff):
                assert text.count(before) == 1, before
                text = text.replace(before, after)
            (self.folder / file).write_text(text)
            self._edits.remove(edit)

    def type(self, command: str) -> None:
        """Run a command of the guide. What it says is what the guide shows, but for the numbers."""
        typed, expected = self._commands.pop(0)
        assert typed == f"python manage.py {command}"
        said = self.manage(*command.split(), *["--noinput"] * command.startswith("remove_stale"))
        if expected:
            assert without_numbers(said) == without_numbers(expected)

    def is_followed(self) -> bool:
        """Tell whether nothing of the guide is left but the removal of the package."""
        return not self._edits and [command[:14] for command, _ in self._commands] == ["pip uninstall "]

    def manage(self, *arguments: str) -> str:
        ran = subprocess.run(
            [*self._python, *arguments],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        assert ran.returncode == 0, ran.stdout
        return ran.stdout

    def serve(self) -> Process:
        return Process([*self._python, "runserver", "--noreload"], cwd=self.folder, env=self._environment)

    _python = [sys.executable, "-W", "ignore", "-m", "django"]

    @property
    def _environment(self) -> dict[str, str]:
        paths = f"{self.folder}:{ROOT}"
        return {**environment(), "DJANGO_SETTINGS_MODULE": "shop.settings", "PYTHONPATH": paths}

    def _own(self, text: str) -> str:
        return re.sub(r"redis://127\.0\.0\.1:6379/\d", self._server.url, text)


def hunks(diff: str) -> Iterator[tuple[str, str]]:
    """Yield the lines before and after each change."""
    for hunk in diff.split("@@\n"):
        lines = hunk.splitlines(keepends=True)
        before, after = ("".join(line[1:] for line in lines if line[0] != sign) for sign in "+-")
        yield before, after


def without_numbers(said: str) -> str:
    return re.sub(r"\d[\d,]*", "N", " ".join(said.split()))


class Process:
    """A process of the site, which goes on with the settings that it was started with."""

    def __init__(self, command: list[str], **options: Any) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log = Path(options["cwd"], f"{port}.log")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen([*command, str(port)], stdout=log, stderr=log, **options)
        try:
            wait_until(self._answers)
        except BaseException:
            self.close()
            raise

    def _answers(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        with suppress(requests.ConnectionError):
            return requests.get(f"{self.url}/", headers={"X-Forwarded-For": "192.0.2.1"}, timeout=20).ok
        return False

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Device:
    """A browser somewhere."""

    def __init__(self, address: str, user_agent: str) -> None:
        self.address, self.user_agent = address, user_agent
        self._browser = requests.Session()
        self._browser.headers.update({"X-Forwarded-For": address, "User-Agent": user_agent})

    def get(self, at: Process, path: str = "") -> Any:
        answer = self._browser.get(f"{at.url}/{path}", timeout=20)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.json() if answer.headers["Content-Type"] == "application/json" else answer.text

    def end(self, at: Process, address: str) -> None:
        """End the session with this address, on the page of own sessions."""
        page = self.get(at, "account/sessions/")
        [entry] = [part for part in page.split("<li") if address in part]
        [path] = re.findall(r'action="/([^"]+/end/)"', entry)
        token = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page)[0]
        answer = self._browser.post(f"{at.url}/{path}", {"csrfmiddlewaretoken": token}, timeout=20)
        assert answer.status_code == 200, answer.text
        assert answer.url == f"{at.url}/account/sessions/"


@pytest.fixture(params=[*ROWS])
def package(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.usefixtures("left_alone")
def test_nobody_is_signed_out_by_what_the_guide_says(package: str, tmp_path: Path, server: Server) -> None:
    site = Site(tmp_path, GUIDES.get(package, f"from-{package}"), server)
    has_list = package != "redis-sessions"
    here, phone, away = Device("192.0.2.1", CHROME_MAC), Device("192.0.2.2", ANDROID), Device("192.0.2.3", FIREFOX)
    lost, bob, guest = (Device(f"192.0.2.{number}", CHROME_MAC) for number in (4, 5, 6))
    users = {here: "alice", phone: "alice", away: "alice", bob: "bob", guest: ""}
    baskets = {device: list[str]() for device in users}

    def use(*processes: Process, leave: tuple[Device, ...] = ()) -> None:
        """Have all devices but these use all processes, one after the other: each finds what it has put there."""
        for process in processes:
            for device, user in users.items():
                if device not in leave:
                    assert device.get(process) == {"user": user, "basket": baskets[device]}
                    baskets[device].append(str(len(baskets[device])))
                    device.get(process, f"add/{baskets[device][-1]}/")

    with ExitStack() as running:

        def serve() -> Process:
            return running.enter_context(closing(site.serve()))

        site.manage("migrate")
        site.manage("shell", "-c", CREATE_USERS)
        before = serve()
        for device, user in users.items():
            if user:
                device.get(before, f"sign-in/{user}/")
        lost.get(before, "sign-in/alice/")
        use(before)

        site.edit("step 1")
        site.type("migrate")
        site.type("check")
        first = serve()
        use(first, before, first, leave=(away,))
        before.close()
        if has_list:
            assert here.get(first, "old/") == {each.address: each.user_agent for each in (here, phone, away, lost)}
            here.get(first, f"end-on/{lost.address}/")
            assert lost.get(first)["user"] == ""

        site.edit("step 2")
        second = serve()
        use(second, first, second, leave=(away,))
        first.close()
        site.type("movesessions --dry-run")
        site.type("movesessions")
        page = here.get(second, "account/sessions/")
        assert all((device.address in page) == (has_list or device is not away) for device in (here, phone, away))
        assert ("Firefox" in page) == has_list
        here.end(second, phone.address)
        assert phone.get(second) == {"user": "", "basket": []}
        del users[phone]
        use(second, leave=(away,))

        site.type("movesessions --finish")
        assert site.manage("shell", "-c", ROWS[package]).split()[-1] == "0"
        site.edit("the engine alone")
        alone = serve()
        use(second, alone, leave=(away,))
        second.close()
        if has_list:
            site.type(f"migrate {package.replace('-', '_')} zero")
            site.edit("without the package")
            site.type("remove_stale_contenttypes --include-stale-apps")
        else:
            site.type("check")
        (tmp_path / f"{package.replace('-', '_')}.py").write_text("raise ModuleNotFoundError('uninstalled')")
        without = serve()
        alone.close()
        use(without)
        assert phone.get(without)["user"] == ""
        assert site.is_followed()
        site.manage("check", "--fail-level", "WARNING")
