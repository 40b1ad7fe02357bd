"""What the observer for Prometheus counts, in one process and in several."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import requests
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.test import Client
from django_prometheus.exports import ExportToDjangoView
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from django_redsess import observers, online
from django_redsess.backend import SessionStore
from django_redsess.contrib.prometheus import observer as observer
from django_redsess.observers import Server
from testproject import servers
from tests.helpers.outages import TIMEOUT, caches, close_connections
from tests.helpers.running import Gunicorn, run_python, wait_until
from tests.helpers.store import sid_of

Found = dict[tuple[str, ...], float]


def metrics_of(text: str) -> Found:
    """Return the values of a page, by their names and the values of their labels, ordered by the labels' names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def scraped() -> Found:
    return metrics_of(Client().get("/metrics").content.decode())


def rise(before: Found) -> dict[tuple[str, ...], float]:
    """Return by how much counts have risen, of operations and of events."""
    rises = {name: value - before.get(name, 0) for name, value in scraped().items()}
    counted = ("redsess_operation_seconds_count", "redsess_conflicts_merged_total", "redsess_sign_ins_refused_total")
    return {name: value for name, value in rises.items() if value and name[0] in (*counted, "redsess_outages_total")}


@pytest.fixture
def observed(settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "OBSERVERS": ["django_redsess.contrib.prometheus.observer.Observer"]}


def seconds_of(operation: str, outcome: str, server: servers.Server) -> tuple[str, ...]:
    return "redsess_operation_seconds_count", operation, outcome, f"127.0.0.1:{server.port}"


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.usefixtures("observed")
def test_operations_are_counted_by_name_outcome_and_server_and_never_by_partition(settings, server, count: int) -> None:
    settings.REDSESS = {**settings.REDSESS, "PARTITIONS": count}
    keys = []
    before = scraped()
    for _ in range(8):
        session = SessionStore()
        session["colour"] = "red"
        session.save()
        keys.append(session.session_key)
    for key in keys:
        assert SessionStore(key)["colour"] == "red"
    risen = rise(before)
    assert {name[3] for name in risen} == {f"127.0.0.1:{server.port}"}
    assert risen[seconds_of("create", "ok", server)] == 8
    assert risen[seconds_of("read", "ok", server)] == 8
    assert len({name for name in risen if name[1] == "read"}) == 1


@pytest.mark.usefixtures("observed")
def test_nobody_stands_in_a_label(new_session) -> None:
    session = new_session("4711471147", colour="vermilion")
    assert SessionStore(session.session_key)[SESSION_KEY] == "4711471147"
    session.cycle_key()
    session.save()
    online.end(sid_of(session.session_key))
    page = Client(cookies={"sessionid": session.session_key}).get("/metrics").content.decode()
    assert "redsess_operation_seconds_count" in page
    for secret in (session.session_key, sid_of(session.session_key), "4711471147", "vermilion"):
        assert secret not in page


@pytest.mark.usefixtures("observed")
def test_an_outage_is_counted_and_shown_until_it_is_over(settings, own_server) -> None:
    settings.CACHES = caches(own_server.url, timeout=TIMEOUT)
    session = SessionStore()
    session["colour"] = "red"
    session.save()
    before = scraped()
    own_server.stop()
    for _ in range(2):
        assert Client(raise_request_exception=False).get("/ready").status_code == 503
    risen = rise(before)
    assert risen[seconds_of("ready", "unreachable", own_server)] == 2
    assert risen["redsess_outages_total", ""] == 1
    assert scraped()["redsess_outage", ""] == 1
    own_server.start()
    assert Client().get("/ready").status_code == 200
    assert scraped()["redsess_outage", ""] == 0
    close_connections()


@pytest.mark.usefixtures("observed")
def test_merged_conflicts_are_counted(new_session) -> None:
    before = scraped()
    session = new_session(colour="red")
    one, other = (SessionStore(session.session_key) for _ in range(2))
    for number, each in enumerate((one, other)):
        each[f"key{number}"] = each["colour"]
    one.save()
    other.save()
    assert rise(before)["redsess_conflicts_merged_total",] == 1


@pytest.mark.django_db
@pytest.mark.usefixtures("observed")
def test_refused_sign_ins_are_counted_by_reason(settings, set_limit) -> None:
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    alice, bob = (User.objects.create_user(name) for name in ("alice", "bob"))
    set_limit(1, "refuse")
    online.block(bob, until=datetime.now(UTC) + timedelta(hours=1))
    before = scraped()
    answers = [Client().get(f"/sign-in/{name}/").status_code for name in ("alice", "alice", "bob")]
    assert answers == [200, 403, 403]
    risen = rise(before)
    assert risen["redsess_sign_ins_refused_total", "limit"] == 1
    assert risen["redsess_sign_ins_refused_total", "block"] == 1
    online.unblock(bob)
    online.end_user(alice)


@pytest.mark.unit
@pytest.mark.usefixtures("observed")
def test_requests_without_proof_are_counted_by_their_outcome() -> None:
    name = "redsess_requests_not_proven_total"
    before = metrics_of(generate_latest(observer.registry).decode())
    for outcome in ("refused", "refused", "opened"):
        observers.notify_event("session_not_proven", outcome=outcome)
    after = metrics_of(generate_latest(observer.registry).decode())
    rises = [after[name, outcome] - before.get((name, outcome), 0) for outcome in ("refused", "opened")]
    assert rises == [2, 1]


@pytest.mark.unit
def test_other_events_and_unix_sockets_are_no_problem() -> None:
    counting = observer.Observer()
    counting.event("store_counted", signed_in=1)
    counting.operation("read", Server("/run/redis.sock", None, 0), 0.001, None)
    counting.operation("read", Server("shop", None, 0, "10.0.0.1:6379"), 0.001, GeneratorExit())
    names = {sample.labels["server"] for metric in observer.OPERATIONS.collect() for sample in metric.samples}
    assert {"/run/redis.sock", "10.0.0.1:6379"} <= names


@pytest.mark.slow
@pytest.mark.usefixtures("observed")
def test_the_page_of_django_prometheus_shows_nothing_of_ours_a_second_time(rf, new_session) -> None:
    new_session()
    theirs = ExportToDjangoView(rf.get("/")).content.decode()
    assert "python_info" in theirs
    assert "redsess_" not in theirs
    ours = scraped()
    assert ("redsess_up",) in ours
    assert {name.startswith("redsess_") for name, *_ in ours} == {True}


WITHOUT_FOLDER = """
import django
from django.conf import settings
settings.REDSESS = {**settings.REDSESS, "OBSERVERS": ["django_redsess.contrib.prometheus.observer.Observer"]}
django.setup()
from django.core import checks
from django.test import Client
told = [each.id for each in checks.run_checks() if each.id == "django_redsess.E091"]
page = Client().get("/metrics")
names = {line.split("{")[0].split(" ")[0] for line in page.text.splitlines() if line[:1] != "#"}
found = "redsess_up" in names, "redsess_operation_seconds_count" in names
print(Client().get("/write/colour/red/").status_code, page.status_code, *found, *told)
"""


@pytest.mark.slow
def test_a_site_whose_folder_is_gone_starts_and_shows_what_it_knows(server: servers.Server, tmp_path: Path) -> None:
    environment = {
        "DJANGO_SETTINGS_MODULE": "tests.helpers.site.settings",
        "PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "gone"),
        "REDIS_URL": server.url,
        "REDSESS_DEMO_DIR": str(tmp_path),
        "HISTORY": "0",
    }
    printed = run_python("-c", WITHOUT_FOLDER, **environment)
    assert printed.split() == ["200", "200", "True", "False", "django_redsess.E091"]


WORKERS = 3
CONFIGURATION = """
from prometheus_client import multiprocess

def child_exit(server, worker):
    multiprocess.mark_process_dead(worker.pid)
"""


@pytest.fixture
def site(server: servers.Server, tmp_path: Path) -> Iterator[str]:
    """The site in several processes of gunicorn. Return its address."""
    (tmp_path / "counts").mkdir()
    (tmp_path / "gunicorn.conf.py").write_text(CONFIGURATION)
    options = [f"--workers={WORKERS}", f"--config={tmp_path / 'gunicorn.conf.py'}", "--log-level=warning"]
    environment = {
        "DJANGO_SETTINGS_MODULE": "tests.helpers.site.settings.observed",
        "PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "counts"),
        "REDIS_URL": server.url,
    }
    with Gunicorn(tmp_path, *options, **environment) as started:
        yield started.address


def pids_with_counts(folder: Path) -> set[str]:
    return {path.stem.split("_")[-1] for path in folder.glob("histogram_*.db")}


@pytest.mark.slow
def test_with_several_processes_each_page_has_the_counts_of_all(site: str, tmp_path: Path, server) -> None:
    counts = tmp_path / "counts"
    cookies = []

    def visit() -> bool:
        # Each connection is new: any of the processes may accept it.
        answer = requests.get(f"{site}/write/colour/red/", timeout=20)
        assert answer.status_code == 200
        cookies.append(answer.cookies["sessionid"])
        return len(pids_with_counts(counts)) == WORKERS and len(cookies) >= 20

    wait_until(visit)
    for cookie in cookies[:5]:
        assert requests.get(f"{site}/sign-out/", cookies={"sessionid": cookie}, timeout=20).status_code == 200
    pages = []

    def asked_of_several() -> bool:
        pages.append(metrics_of(requests.get(f"{site}/metrics", timeout=20).text))
        return len(pages) >= 12

    wait_until(asked_of_several)
    for page in pages:
        assert page["redsess_sessions_created_total",] == len(cookies)
        assert page["redsess_sessions_ended_total", "logout"] == 5
        assert page["redsess_sessions", "guest"] == len(cookies) - 5
        assert page[seconds_of("create", "ok", server)] == len(cookies)
        assert page["redsess_up",] == 1
        assert {name.startswith("redsess_") for name, *_ in page} == {True}
    beside = requests.get(f"{site}/prometheus", timeout=20).text
    # That page has what is counted in files: of our own, not the numbers of the store.
    names = Counter(name for name, *_ in metrics_of(beside))
    assert names["django_http_requests_before_middlewares_total"] == 1
    assert names["redsess_up"] == 0
    assert "redsess_operation_seconds_count" in names
