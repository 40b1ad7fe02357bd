"""
Write docs/reference/public-names.txt anew, and show what is different.

With --check, write nothing. The exit status is 1 then if anything is different.
"""

from __future__ import annotations

import argparse
import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
django.setup()

from tests.helpers.public_names import names_file  # noqa: E402 - it imports models


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.helpers.public_names", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, and end with 1 if anything is different")
    only_check = parser.parse_args().check
    before = names_file.FILE.read_text(encoding="utf-8") if names_file.FILE.is_file() else ""
    now = names_file.collected()
    found = names_file.differences(names_file.read(before), now)
    print("\n".join(found) or "No public name has changed.")
    if not only_check:
        names_file.FILE.write_text(names_file.text_of(now), encoding="utf-8")
    return int(only_check and bool(found))


if __name__ == "__main__":
    sys.exit(main())
