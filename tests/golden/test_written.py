"""This tree writes what the newest golden stores have, byte by byte."""

from __future__ import annotations

import re

import pytest

from tests.golden import dumps
from tests.golden.conftest import use
from tests.golden.contents import STORES, fill
from tests.helpers.store import Partition, pool

WHAT_TO_DO = """
This tree writes something else than release {release} did. A process of that release may run beside it, and read this:
does it go on? If so, and it is meant, keep the old stores, and add what is written now:

    python -m tests.golden MINOR_VERSION

The changelog says what is written since. If nothing else should be written, this is a mistake.
"""


@pytest.mark.both_servers
@pytest.mark.parametrize("store", STORES)
def test_what_is_written_is_what_the_newest_golden_store_has(redis, settings, store: str) -> None:
    release = dumps.releases()[-1]
    expected = dumps.read(release, store)
    assert expected.options == STORES[store]
    use(settings, expected.options)
    pool().invalidate()
    found = dumps.taken(redis, expected.options, fill(redis))
    before, now = dumps.comparable(expected), dumps.comparable(found)
    if found.zlib != expected.zlib:
        # Another library may compress the same text to other bytes. Each reads those of all others.
        assert dumps.inflated(found) == dumps.inflated(expected)
        for comparable in (before, now):
            for key in comparable.values():
                if key["value"] and "client and data" in str(key["value"]):
                    for record in key["value"].values():
                        del record["client and data"]
    differences = dumps.difference(before, now)
    assert not differences, "\n".join([WHAT_TO_DO.format(release=release), *differences])
    redis.flushall()


@pytest.mark.unit
@pytest.mark.parametrize("store", STORES)
def test_there_is_a_key_of_each_kind(store: str) -> None:
    there = {re.sub(r"^\{golden(:\d)?\}", "{golden}", name) for name in dumps.read(dumps.releases()[-1], store).keys}
    for name in Partition("golden").names:
        kind = re.sub(r"(:0)+$", ":", name)
        assert any(each == kind or (kind.endswith(":") and each.startswith(kind)) for each in there), kind
