"""
Uses a site whose users have keys that are no numbers, as visitors, an administrator and a shell do.

``python -m tests.user_models.drive PART`` with DJANGO_SETTINGS_MODULE, USER_KEY, PARTITIONS, REDIS_URL and
REDSESS_DEMO_DIR; ends with 0 if all of that part works.
"""

from __future__ import annotations

import importlib
import sys

import django
from django.core.management import call_command


def main(part: str) -> None:
    django.setup()
    importlib.import_module("tests.user_models.admin")
    call_command("migrate", run_syncdb=True, verbosity=0)
    call_command("check")

    from testproject.shop.catalogue import load_catalogue
    from tests.user_models.parts import PARTS
    from tests.user_models.site import Site

    load_catalogue()
    site = Site()
    PARTS[part](site)
    site.check()


if __name__ == "__main__":
    main(sys.argv[1])
