#!/usr/bin/env python
"""Django's command line for the demo shop: ``python testproject/manage.py help``."""

import os
import sys
from pathlib import Path


def main() -> None:
    # The shop is imported as ``testproject.…`` from wherever this file is started.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
