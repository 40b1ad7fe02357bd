"""The demo, run as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testproject.servers import free_port

ROOT = Path(__file__).parents[2]

DEMO_VARIABLES = ("CLUSTER", "LIMIT_POLICY", "PARTITIONS", "PORT", "REDIS_URL")


@dataclass
class Demo:
    """A demo that runs, with what is its own."""

    process: subprocess.Popen[bytes]
    directory: Path
    output: Path
    url: str
    env: dict[str, str]

    @property
    def state_file(self) -> Path:
        return self.directory / f"{self.env['PORT']}.json"

    @property
    def redis_url(self) -> str:
        return str(json.loads(self.state_file.read_text())["redis_url"])

    def replay(self, file: Path, *options: str, **more: str) -> subprocess.Popen[str]:
        command = [sys.executable, "testproject/manage.py", "replay", str(file), "--url", self.url, *options]
        # Without what the demo was told: a second terminal does not have it either.
        env = {**{name: value for name, value in self.env.items() if name not in DEMO_VARIABLES}, **more}
        return subprocess.Popen(
            command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8"
        )


def environment(directory: Path, **more: str) -> dict[str, str]:
    # Not the server and the settings of the tests: the demo brings its own.
    ours = (*DEMO_VARIABLES, "DJANGO_SETTINGS_MODULE")
    env = {name: value for name, value in os.environ.items() if name not in ours}
    return {**env, "PYTHONUTF8": "1", "REDSESS_DEMO_DIR": str(directory), **more}


@contextmanager
def running(directory: Path, **more: str) -> Iterator[Demo]:
    env = environment(directory, **{"PORT": str(free_port()), **more})
    output = directory / f"{env['PORT']}.txt"
    with output.open("wb") as log:
        # A session of its own, as a terminal's: its Ctrl-C goes to Valkey too.
        process = subprocess.Popen(
            [sys.executable, "-m", "testproject.demo"],
            cwd=ROOT,
            env=env,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    demo = Demo(process, directory, output, f"http://127.0.0.1:{env['PORT']}", env)
    try:
        wait_until_served(demo)
        yield demo
    finally:
        process.terminate()
        process.wait(timeout=20)


def wait_until_served(demo: Demo) -> None:
    deadline = time.monotonic() + 30
    while "Press Ctrl-C" not in demo.output.read_text():
        assert demo.process.poll() is None, demo.output.read_text()
        assert time.monotonic() < deadline, demo.output.read_text()
        time.sleep(0.05)
