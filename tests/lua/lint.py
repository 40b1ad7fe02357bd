"""
``luacheck`` on the scripts as the server gets them: ``python -m tests.lua.lint``.

A file by itself would not do: the names that it uses are also those of other files.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from django_redsess.transport import scripts

FOLDER = Path(".venv") / "lua"

KNOWN = ("redis", "cjson", "cmsgpack", "struct", "bit", "KEYS", "ARGV")
"""What the server gives to a script, besides Lua's own."""

OPTIONS = ("--std", "lua51", "--read-globals", *KNOWN, "--no-max-line-length", "--no-color", "--quiet")


def main() -> int:
    if shutil.which("luacheck") is None:
        print("Lua was not linted: luacheck is not on PATH (on Debian: apt-get install lua-check).")
        return 0
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    for script in scripts.all_scripts():
        (FOLDER / f"{script.name}.lua").write_text(script.text, encoding="utf-8")
    return subprocess.run(["luacheck", *OPTIONS, "--", FOLDER]).returncode


if __name__ == "__main__":
    sys.exit(main())
