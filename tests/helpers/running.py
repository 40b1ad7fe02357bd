"""Commands of manage.py, and sites, that run as processes of their own."""

import os
import select
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import redis
import requests

from testproject.servers import Server, free_port

ROOT = Path(__file__).parents[2]


class Running:
    """A command of manage.py in a process of its own. It can be read while it runs."""

    def __init__(self, folder: Path, url: str, *arguments: str, stderr: int | None = None, **changes: float) -> None:
        """Start it. ``changes`` replace constants of ``management.cleaning_command``; ``stderr`` may be a terminal."""
        code = "from django_redsess.management import cleaning_command\n"
        code += "".join(f"cleaning_command.{name} = {value}\n" for name, value in changes.items())
        code += "from django.core.management import execute_from_command_line\n"
        code += "import sys\nexecute_from_command_line(sys.argv)"
        started = ["-c", code] if changes else ["testproject/manage.py"]
        env = {"DJANGO_SETTINGS_MODULE": "testproject.settings", "REDIS_URL": url, "REDSESS_DEMO_DIR": str(folder)}
        # Its database has no tables, unless a test makes them.
        env["HISTORY"] = os.environ.get("HISTORY", "0")
        number = len(list(folder.iterdir()))
        self._stdout, self._stderr = folder / f"{number}.stdout", folder / f"{number}.stderr"
        with self._stdout.open("wb") as out, self._stderr.open("wb") as error:
            self.process = subprocess.Popen(
                [sys.executable, *started, *arguments],
                cwd=ROOT,
                env={**os.environ, "PYTHONUTF8": "1", **env},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=error if stderr is None else stderr,
            )

    @property
    def stdout(self) -> str:
        return self._stdout.read_text()

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    def ended(self) -> tuple[int, str]:
        """Wait until it has ended by itself; return its exit status, and what it has said on stderr."""
        return self.process.wait(timeout=30), self.stderr

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Ask it to stop, and do as :meth:`ended` does."""
        self.process.send_signal(number)
        return self.ended()

    def kill(self) -> None:
        """Make sure that it is gone, however the test ended."""
        with suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()


class Gunicorn:
    """A site under gunicorn, in processes of its own, on a free port: ``address``. It is served within ``with``."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        application: str = "testproject.wsgi",
        cwd: Path = ROOT,
        headers: Mapping[str, str] | None = None,
        **environment: str,
    ) -> None:
        """Start it. Its log is in ``folder``; ``/ready``, asked with these ``headers``, tells when it is served."""
        self._headers = headers
        port = free_port()
        self.address, self._log = f"http://127.0.0.1:{port}", folder / f"gunicorn-{port}.log"
        more = [f"--bind=127.0.0.1:{port}", "--no-control-socket"]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gunicorn", application, *options, *more],
                cwd=cwd,
                env={**os.environ, "REDSESS_DEMO_DIR": str(folder), "HISTORY": "0", **environment},
                stdout=log,
                stderr=log,
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    def stop(self) -> int:
        """Ask it to stop; return its exit status when it has done so."""
        self.process.terminate()
        return self.process.wait(timeout=30)

    def __enter__(self) -> Self:
        try:
            wait_until(self._is_served)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def _is_served(self) -> bool:
        assert self.process.poll() is None, self.log
        with suppress(requests.ConnectionError, requests.Timeout):
            return requests.get(f"{self.address}/ready", headers=self._headers, timeout=20).status_code == 200
        return False


def wait_until(condition: Callable[[], Any], *, seconds: float = 60) -> None:
    """Return as soon as ``condition`` holds; fail where it does not in that time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def asleep(client: redis.Redis) -> int:
    """Count the cleaners that sleep: their connections are in BLPOP."""
    return sum(each["cmd"] == "blpop" and "b" in each["flags"] for each in client.client_list())


def run_python(*arguments: str, quiet: bool = False, **environment: str) -> str:
    """
    Run ``python`` with these arguments in a process of its own, and return what it prints.

    ``environment`` is added to that of the tests. The test fails unless the status is 0, and where it is to be
    ``quiet`` if anything is on stderr.
    """
    ran = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONUTF8": "1", **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert not (quiet and ran.stderr), ran.stderr
    return ran.stdout


def drive(*part: str, settings: str, server: Server, folder: Path, **changes: str) -> None:
    """Run this part of tests/helpers/driven under these settings; ``changes`` are those of its environment."""
    env = {"DJANGO_SETTINGS_MODULE": settings, "REDIS_URL": server.url, "REDSESS_DEMO_DIR": str(folder)}
    run_python("-m", "tests.helpers.driven", *part, **env, **changes)


HANGS_SECONDS = 20
"""A child that has said nothing for so long hangs, and is killed."""


def in_child(work: Callable[[], object]) -> str:
    """Return what ``work`` returns in a child, as text; ``""`` if the child hung."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of the other threads.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            os.write(writer, str(work()).encode())
        except BaseException as error:
            os.write(writer, repr(error).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as answer:
        # Not by an alarm of the child's own: it may hang before it could set one.
        says, _, _ = select.select([reader], [], [], HANGS_SECONDS)
        if not says:
            os.kill(pid, signal.SIGKILL)
        said = answer.read().decode()
    os.waitpid(pid, 0)
    return said
