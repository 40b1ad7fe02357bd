"""
Set the site up and run a part of the drive: ``python -m tests.helpers.driven MODULE [PART]``.

The environment says which site: DJANGO_SETTINGS_MODULE, REDIS_URL, REDSESS_DEMO_DIR and what those settings read. Ends
with 0 if all works.
"""

import importlib
import sys

import django
from django.core.management import call_command


def main(name: str, *part: str) -> None:
    django.setup()
    module = importlib.import_module(f"tests.helpers.driven.{name}")
    call_command("migrate", run_syncdb=True, verbosity=0)
    call_command("check")

    from testproject.shop.catalogue import load_catalogue

    load_catalogue()
    module.main(*part)


if __name__ == "__main__":
    main(*sys.argv[1:])
