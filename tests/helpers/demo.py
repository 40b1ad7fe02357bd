"""The demo, run as a process."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testproject.servers import free_port
from tests.helpers.running import wait_until

ROOT = Path(__file__).parents[2]


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

    def is_served(self) -> bool:
        told = self.output.read_text()
        assert self.process.poll() is None, told
        return "Press Ctrl-C" in told

    @property
    def redis_url(self) -> str:
        return str(json.loads(self.state_file.read_text())["redis_url"])


def environment(directory: Path, **more: str) -> dict[str, str]:
    # Not the server and the settings of the tests: the demo brings its own.
    ours = ("CLUSTER", "HISTORY", "HTTPS", "LIMIT_POLICY", "MOVE", "PARTITIONS", "PORT", "REDIS_URL")
    ours += ("DJANGO_SETTINGS_MODULE",)
    env = {name: value for name, value in os.environ.items() if name not in ours}
    # Counts and times stand still, unless a test asks for clicks.
    return {**env, "PYTHONUTF8": "1", "CLICKS": "0", "REDSESS_DEMO_DIR": str(directory), **more}


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
    scheme = "https" if env.get("HTTPS") == "1" else "http"
    demo = Demo(process, directory, output, f"{scheme}://127.0.0.1:{env['PORT']}", env)
    try:
        wait_until(demo.is_served, seconds=120)
        yield demo
    finally:
        process.terminate()
        process.wait(timeout=20)
