"""
Make pictures of every page that people see, to look at them: ``make gallery``.

``python -m tests.helpers.gallery [FOLDER [WORD …]]`` makes those of the pages whose names begin with one of the words,
or of the sites that one names. Each picture is ``<page>[-<site>]-<light, dark or a language>-<width>.png``.
``index.html`` shows all that are in the folder. The pages are those of demos that are started for this, with Chromium.
Those that fail are told at the end.
"""

import os
import sys
from pathlib import Path

import django

FOLDER = Path(__file__).parents[3] / ".venv" / "gallery"


def main(folder: Path = FOLDER, *words: str) -> None:
    # The people of the demo are models.
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
    django.setup()
    from tests.helpers.browsing import CHROMIUM, NO_BROWSER
    from tests.helpers.gallery.pictures import make

    if CHROMIUM is None:
        sys.exit(f"Error: {NO_BROWSER}")
    failed = make(folder, words)
    print(f"Open {folder / 'index.html'}")
    if failed:
        sys.exit("\n".join(["These pages failed:", *failed]))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]), *sys.argv[2:])
