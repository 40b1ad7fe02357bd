"""A project that a reader makes: its files are those of the pages."""

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import pytest
from django.urls import clear_url_caches

from testproject.servers import Server
from tests.project.docs.pages import DOCS, blocks, environment


def write_all(folder: Path, page: str, server: Server) -> None:
    """Write the files of a page: those blocks that have the name of one as their heading."""
    for block in blocks(DOCS / page):
        name, _, at_the_end = block.heading.partition(", ")
        if name.startswith("shop/"):
            text = re.sub(r"redis://127\.0\.0\.1:(6379/1|6399/0)", server.url, block.text)
            with (folder / name).open("a" if at_the_end else "w") as file:
                file.write(f"\n{text}")


def import_guide(
    page: str, names: Iterable[str], monkeypatch: pytest.MonkeyPatch, *, at_the_end_of_urls: str = ""
) -> None:
    """Make the package ``shop`` of the modules of a guide, in the order in which they import each other."""
    texts = {block.heading.partition(",")[0]: block.text for block in blocks(DOCS / "howto" / page)}
    texts["shop/urls.py"] += at_the_end_of_urls
    made = {"shop": ModuleType("shop")}
    for name in names:
        made[f"shop.{name}"] = module = ModuleType(f"shop.{name}")
        module.__dict__["urlpatterns"] = []
        for each, there in made.items():
            monkeypatch.setitem(sys.modules, each, there)
        exec(texts[f"shop/{name}.py"], module.__dict__)
    # Other guides have a module of this name, too.
    clear_url_caches()


def manage(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True)
