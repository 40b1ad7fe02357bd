"""
What all tests have. The fixtures are in tests/helpers/fixtures, those of one package in the conftest.py of its folder.

``servers.py``: ``server``, ``own_server``, ``cluster``, ``own_cluster``, ``redis``, ``start``, ``answer``
``store.py``: ``empty_store`` (for every test), ``left_alone``, ``store_settings``, ``partitions``, ``clustered``,
``new_session``, ``users_in_no_table``, ``meanwhile``, ``set_limit``
``counting.py``: ``commands``, ``round_trips``, ``sent``, ``known_scripts``
``clock.py``: runs of the tests at another time
``history.py``: ``history``, for tests of the rows that remain of sessions; ``add_sites``, for the addresses in mails
``device_bound.py``: ``device_bound``, for tests of sessions that are bound to devices; ``new_device``, for a browser
``where_it_runs.py``: a line at the end, with the versions of all that the tests ran with

``pytest --fixtures`` shows what each does. Tests marked ``unit`` have no server: whatever connects to one fails.
"""

import gc
import os
import signal
from collections import defaultdict
from collections.abc import Generator, Iterable
from contextvars import copy_context
from itertools import combinations

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis

from testproject import servers

FIXTURES = ("servers", "store", "counting", "clock", "history", "device_bound", "where_it_runs")
pytest_plugins = [f"tests.helpers.fixtures.{name}" for name in FIXTURES]

# How many examples of a property are tried: --hypothesis-profile=short in `make test`, and ci in .ci/run. They are
# others in each run.
for name, count in {"short": 10, "ci": 30, "full": 100}.items():
    hypothesis.register_profile(
        name,
        max_examples=count,
        deadline=None,
        derandomize=False,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
hypothesis.load_profile("full")


def pytest_configure() -> None:
    if "REDSESS_SKIP_NOTHING" in os.environ and "redis" not in servers.available():
        raise pytest.UsageError("no redis-server is installed")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell that starts the tests in the background has SIGINT ignored, and what they start would wait for ever.
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Run at least four tests at once: a good part of the time that they take is waiting."""
    return max(4, os.cpu_count() or 1)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among the tests: they stay until the end, and are many."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what is marked ``both_servers`` on Redis, and ``on_cluster`` on a cluster too; not in ``make test``."""
    if "server" in metafunc.fixturenames and metafunc.definition.get_closest_marker("both_servers"):
        kinds = [
            name if name == "valkey" else pytest.param(name, marks=pytest.mark.slow) for name in servers.available()
        ]
        metafunc.parametrize("server", kinds, indirect=True)
    marked, fixtures = metafunc.definition.get_closest_marker, set(metafunc.fixturenames)
    can_run = not marked("one_server") and not fixtures & {"commands", "round_trips", "sent"}
    if marked("on_cluster") and can_run and "partitions" in fixtures:
        cluster = pytest.param("cluster", marks=pytest.mark.slow)
        # A mark takes the place of the parameters that the fixture has.
        stores = pytest.mark.parametrize(
            "partitions", [1, 4, cluster], ids=["1 partition", "4 partitions", "cluster"], indirect=True
        )
        metafunc.definition.add_marker(stores)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """
    Mark as slow those runs of a test whose parameters are all shown by other runs of it.

    Of a test for three policies, with one and four partitions, over WSGI and ASGI that leaves three runs of twelve:
    each policy, number and way is seen in ``make test``, and each pair of them in ``make test-all``. What shows no
    other pair is marked as ``combination``.

    Mark as ``other_server`` as few runs on the server that is not the embedded one. ``fast`` is True for those of tests
    that are not slow by themselves. There, each parameter is seen once, and all else is a ``combination``.
    """
    runs: dict[str, list[pytest.Item]] = defaultdict(list)
    others: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec"):
            of_embedded = item.callspec.params.get("server", "valkey") == "valkey"
            (runs if of_embedded else others)[item.nodeid.partition("[")[0]].append(item)
    for each in runs.values():
        for run in _without_enough([run for run in each if not run.get_closest_marker("slow")]):
            run.add_marker("slow")
        first = [run for run in each if not run.get_closest_marker("slow")]
        for run in _without_enough(each, together=2, taken=first):
            run.add_marker("combination")
    for each in others.values():
        left = _without_enough(each)
        for run in each:
            # Each of them is marked as slow for its server, too.
            fast = len(list(run.iter_markers("slow"))) == 1
            run.add_marker(pytest.mark.combination if run in left else pytest.mark.other_server(fast=fast))


def _without_enough(
    runs: list[pytest.Item], *, together: int = 1, taken: Iterable[pytest.Item] = ()
) -> list[pytest.Item]:
    """
    Return the runs that are left when enough are taken to show each parameter once.

    With ``together=2``, each pair of parameters is shown once. The runs in ``taken`` are taken first.
    """
    # What a run shows: of each table of parameters (and each fixture with some) the row that it takes.
    shown: dict[pytest.Item, set[tuple[tuple[int, str], ...]]] = {}
    for run in runs:
        rows = list(enumerate(run.callspec._idlist))  # type: ignore[attr-defined]
        shown[run] = {chosen for count in range(1, together + 1) for chosen in combinations(rows, count)}
    unseen = set[tuple[tuple[int, str], ...]]().union(*shown.values())
    left = list(runs)
    for run in taken:
        unseen -= shown[run]
        left.remove(run)
    while unseen:
        best = max(left, key=lambda run: len(unseen & shown[run]))
        unseen -= shown[best]
        left.remove(best)
    return left


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """
    Run each test in a context of its own.

    With each change of CACHES, Django leaves a context variable behind, and asgiref goes through all there are whenever
    it changes threads: after some thousand tests, a request over ASGI would take seconds.
    """
    # The first one does nothing but with --reruns.
    for name in ("rerunfailures", "runner"):
        plugin = item.config.pluginmanager.get_plugin(name)
        if copy_context().run(plugin.pytest_runtest_protocol, item=item, nextitem=nextitem):
            return True
    return None


def pytest_report_header() -> str:
    return "servers: " + ", ".join(f"{name} ({binary.name})" for name, binary in servers.available().items())
