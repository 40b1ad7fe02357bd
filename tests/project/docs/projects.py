"""A project that a reader makes: its files are those of the pages."""

import re
import subprocess
import sys
from pathlib import Path

from testproject.servers import Server
from tests.project.docs.pages import DOCS, blocks, environment


def write_all(folder: Path, page: str, server: Server) -> None:
    """Write the files of a page: those blocks that have the name of one as their caption."""
    for block in blocks(DOCS / page):
        name, _, at_the_end = block.caption.partition(", ")
        if name.startswith("shop/"):
            text = re.sub(r"redis://127\.0\.0\.1:(6379/1|6399/0)", server.url, block.text)
            with (folder / name).open("a" if at_the_end else "w") as file:
                file.write(f"\n{text}")


def manage(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True)
