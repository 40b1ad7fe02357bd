"""Write golden stores with the present tree: ``python -m tests.golden 1.3`` makes the folder ``tests/golden/1.3``."""

import argparse
import re
from contextlib import closing

import django
from django.conf import settings

# No more than the engine needs: what is written does not depend on the site.
settings.configure(
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django_redsess",
        "django_redsess.contrib.history",
    ],
    SESSION_ENGINE="django_redsess.backend",
    SESSION_CACHE_ALIAS="sessions",
    SECRET_KEY="another",
    USE_TZ=True,
)
django.setup()

from django.test import override_settings  # noqa: E402

from django_redsess.contrib.history import blocks, receivers  # noqa: E402
from testproject import servers  # noqa: E402
from tests.golden import dumps, rows  # noqa: E402
from tests.golden.contents import STORES, fill, store_of  # noqa: E402
from tests.helpers.outages import caches  # noqa: E402


def release(text: str) -> str:
    if not re.fullmatch(r"\d+\.\d+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no minor version such as 1.3")
    if (dumps.FOLDER / text).exists():
        raise argparse.ArgumentTypeError(
            f"there are stores of {text} already. Of a version that is released, they never change; else remove "
            f"{dumps.FOLDER / text} first"
        )
    return text


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.golden", description=__doc__)
    parser.add_argument("release", type=release, help="the first version that writes so, such as 1.3")
    chosen = parser.parse_args().release
    # There is no database: of rows, only what would be written is asked.
    receivers.disconnect_receivers()
    blocks.disconnect_copies()
    for name, options in STORES.items():
        with (
            closing(servers.Server(servers.available()["valkey"])) as server,
            override_settings(CACHES=caches(server.url)),
            store_of(options),
        ):
            golden = dumps.taken(server.client, options, fill(server.client))
            dumps.write(chosen, name, golden._asdict())
            print(f"tests/golden/{chosen}/{name}.json has {len(golden.keys)} keys, written on {golden.server}.")
    written = rows.written()
    dumps.write(chosen, "rows", written._asdict())
    for table, lines in written.tables.items():
        print(f"tests/golden/{chosen}/rows.json has {len(lines)} rows of {table}.")


main()
