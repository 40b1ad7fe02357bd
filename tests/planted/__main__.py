"""Plant each fault into a copy of this tree, run the tests that have to find it, and say which did."""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.helpers.tree import copy_tree
from tests.planted import Fault, faults

SECONDS_MAX = 600
"""A fault may let the tests run for ever."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="FAULT", help="names of patches in tests/planted (default: all)")
    parser.add_argument("--slow", action="store_true", help="run slow tests, too, as make test-all does")
    parser.add_argument("--processes", default="2", metavar="N", help="how many processes run tests (default: 2)")
    options = parser.parse_args()
    known = {fault.name: fault for fault in faults()}
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"there is no fault {unknown[0]!r} in tests/planted")
    chosen = [known[name] for name in options.names] or list(known.values())
    missed = [fault for fault in chosen if not _is_found(fault, slow=options.slow, processes=options.processes)]
    print(f"{len(chosen) - len(missed)} of {len(chosen)} planted faults were found.")
    return 1 if missed else 0


def _is_found(fault: Fault, *, slow: bool, processes: str) -> bool:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="redsess-planted-") as name:
        copy = Path(name)
        copy_tree(copy)
        fault.plant(copy)
        how = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "--hypothesis-profile=short"]
        how += ["-n", processes, "--dist=worksteal", *([] if slow else ["-m", "not slow"])]
        command = [sys.executable, "-m", "pytest", *how, *fault.tests]
        run = subprocess.Popen(command, cwd=copy, stdout=subprocess.PIPE, text=True, start_new_session=True)
        try:
            output, _ = run.communicate(timeout=SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            print(f"{fault.name}: the tests do not end ({SECONDS_MAX} s)", flush=True)
            return True
    found = re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    seconds = f"{time.monotonic() - began:.0f} s"
    print(f"{fault.name}: {found[0] if found else 'NOT FOUND'} ({seconds})", flush=True)
    # 1: a test has failed. Anything else that is not 0 is a fault that no test could miss, or no test that was run.
    return run.returncode in (1, 2) and bool(found)


if __name__ == "__main__":
    sys.exit(main())
