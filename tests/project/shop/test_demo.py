import ast
import csv
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
import redis
import requests

from testproject.people import GUESTS, MORE_BROWSERS, PASSWORD, SHOPPERS
from testproject.servers import free_port
from tests.helpers.demo import ROOT, Demo, environment, running
from tests.helpers.running import wait_until

PUBLIC = {"accounts", "admin", "backend", "exceptions", "forms", "middleware", "models", "online", "signals", "viewed"}
"""The modules of the package that a site may import."""

SIGNED_IN = [*SHOPPERS, *MORE_BROWSERS]

MINUTE = 60_000


HISTORY_AS_JSON = """
import json
from django_redsess import online
samples = online.history(hours=31 * 24)
print(json.dumps([[*each[1:4], sum(each.ended.values()), each.at.timestamp()] for each in samples]))
"""


def write_visits(file: Path, *, users: int, items: int = 200, visits: int = 60) -> None:
    """Write a file to replay: each of ``users`` views ``visits`` of ``items`` items, some again; rows in disorder."""
    chance = Random(2)
    rows = [
        (f"visitor{user}", f"item{chance.randrange(items)}", datetime(2026, 1, 5, 9) + timedelta(seconds=second))
        for user in range(users)
        for second in range(visits)
    ]
    chance.shuffle(rows)
    with file.open("w", encoding="utf-8", newline="") as lines:
        csv.writer(lines).writerows([("user_id", "event", "timestamp"), *rows])


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with running(tmp_path_factory.mktemp("demo")) as demo:
        yield demo


def sign_in(demo: Demo, username: str, password: str) -> requests.Session:
    client = requests.Session()
    client.trust_env = False
    assert send_form(client, demo, username, password).status_code == 302
    return client


def send_form(client: requests.Session, demo: Demo, username: str, password: str) -> requests.Response:
    client.get(f"{demo.url}/login/")
    form = {"username": username, "password": password, "csrfmiddlewaretoken": client.cookies["csrftoken"]}
    return client.post(f"{demo.url}/login/", form, allow_redirects=False)


def is_signed_in(demo: Demo, client: requests.Session) -> bool:
    return client.get(f"{demo.url}/account/sessions/", allow_redirects=False).status_code == 200


def test_demo_serves_the_shop_and_its_static_files(demo: Demo) -> None:
    page = requests.get(f"{demo.url}/")
    assert page.status_code == 200
    styles = re.findall(r'<link[^>]+href="(/static/[^"]+)"', page.text)
    assert styles
    assert [requests.get(demo.url + style).status_code for style in styles] == [200] * len(styles)


@pytest.mark.slow
def test_demo_has_shoppers_online(demo: Demo) -> None:
    page = sign_in(demo, "admin", "admin").get(f"{demo.url}/admin/django_redsess/onlinesession/")
    assert page.status_code == 200
    assert [address for _, address, _ in SIGNED_IN if address not in page.text] == []


@pytest.mark.slow
def test_demo_runs_a_cleaner(demo: Demo) -> None:
    with redis.Redis.from_url(demo.redis_url) as client:
        seconds, _ = client.time()
        # What the demo makes up ends with the minute before it started.
        wait_until(lambda: client.zcount("{redsess}:samples", seconds * 1000 - seconds * 1000 % MINUTE, "+inf"))


@pytest.mark.slow
def test_demo_makes_up_a_month_of_samples_which_the_cleaner_carries_on(demo: Demo) -> None:
    env = environment(demo.directory, PORT=demo.env["PORT"])
    command = [sys.executable, "testproject/manage.py", "shell", "--verbosity", "0", "--command", HISTORY_AS_JSON]
    history = json.loads(subprocess.run(command, cwd=ROOT, env=env, capture_output=True, timeout=40, check=True).stdout)
    signed_in, guests, created, ended, times = zip(*history, strict=True)
    assert list(created) == sorted(created)
    assert list(ended) == sorted(ended)
    # The chart of a month is full: it has no gap, and begins at its left edge.
    assert max(later - earlier for earlier, later in pairwise(times)) <= 3600
    assert times[-1] - times[0] > 31 * 24 * 3600 - 3600
    assert max(guests) > GUESTS
    # Days have nights, weeks have weekends.
    most = defaultdict[int, int](int)
    for at, count in zip(times, signed_in, strict=True):
        day = round((at - times[-1]) / 86_400 + 1 / 8)
        most[day] = max(most[day], count)
    quiet = sorted(day for day, count in most.items() if day > min(most) and count < 0.7 * max(signed_in))
    assert {later - earlier for earlier, later in pairwise(quiet)} == {1, 6}
    assert min(signed_in) < max(signed_in) / 4


@pytest.mark.slow
def test_shoppers_of_the_demo_signed_in_at_different_times_and_all_times_agree(demo: Demo) -> None:
    with redis.Redis.from_url(demo.redis_url) as client:
        signed_in = dict(client.zrange("{redsess}:online:user", 0, -1, withscores=True))
        seen = dict(client.zrange("{redsess}:recent", 0, -1, withscores=True))
        now = client.time()[0] * 1000
    hours = {int(now - at) // (60 * MINUTE) for at in signed_in.values()}
    assert len(hours) > 8
    assert max(hours) > 18
    assert [sid for sid, at in signed_in.items() if not at <= seen[sid] <= now + 1000] == []
    env = environment(demo.directory, PORT=demo.env["PORT"])
    command = [sys.executable, "testproject/manage.py", "cleansessions", "--check"]
    check = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=40)
    assert check.returncode == 0, check.stderr


@pytest.mark.slow
def test_support_of_the_demo_sees_and_ends_sessions_but_sees_no_users(demo: Demo) -> None:
    assert "sam, password support" in demo.output.read_text()
    sam = sign_in(demo, "sam", "support")
    assert "End selected sessions" in sam.get(f"{demo.url}/admin/django_redsess/onlinesession/").text
    assert sam.get(f"{demo.url}/admin/auth/user/").status_code == 403


@pytest.mark.slow
def test_admin_of_the_demo_follows_the_browsers_language_and_its_shop_is_english(demo: Demo) -> None:
    admin = sign_in(demo, "admin", "admin")
    admin.headers["accept-language"] = "de"
    page = admin.get(f"{demo.url}/admin/django_redsess/onlinesession/").text
    assert ('<html lang="de"' in page, "In dieser Demo ist die Vergangenheit erfunden." in page) == (True, True)
    for path in ("/", "/account/sessions/", "/login/"):
        page = admin.get(demo.url + path).text
        assert ('<html lang="en">' in page, re.findall("Sitzung|vor .* Minuten", page)) == (True, [])


@pytest.mark.slow
def test_demo_does_not_log_requests_that_went_well(demo: Demo) -> None:
    requests.get(f"{demo.url}/login/")
    assert "GET /login/" not in demo.output.read_text()


@pytest.mark.slow
def test_demo_tells_addresses_and_passwords(demo: Demo) -> None:
    told = demo.output.read_text()
    assert f"{demo.url}/admin/django_redsess/onlinesession/" in told
    assert "admin, password admin" in told
    assert f"password {PASSWORD} for each" in told
    assert "3 sessions a user (LIMIT_POLICY=end_oldest)" in told


@pytest.mark.slow
def test_fourth_sign_in_of_a_user_ends_the_first_and_no_other(demo: Demo) -> None:
    with requests.Session() as guest:
        guest.trust_env = False
        browsers = [sign_in(demo, "hugo", PASSWORD) for _ in range(4)]
        assert [is_signed_in(demo, browser) for browser in browsers] == [False, True, True, True]
        assert not is_signed_in(demo, guest)


@pytest.mark.slow
def test_demo_refuses_the_fourth_sign_in_where_its_policy_says_so(tmp_path: Path) -> None:
    with running(tmp_path, LIMIT_POLICY="refuse") as demo:
        assert "3 sessions a user (LIMIT_POLICY=refuse)" in demo.output.read_text()
        # Like all shoppers, hugo is signed in once from the start.
        browsers = [sign_in(demo, "hugo", PASSWORD) for _ in range(2)]
        fourth = requests.Session()
        fourth.trust_env = False
        answer = send_form(fourth, demo, "hugo", PASSWORD)
        assert (answer.status_code, "You already have 3 sessions," in answer.text) == (200, True)
        assert [is_signed_in(demo, browser) for browser in (*browsers, fourth)] == [True, True, False]


@pytest.mark.slow
def test_of_many_sign_ins_at_once_only_as_many_as_are_allowed_get_through(tmp_path: Path) -> None:
    def answer(_: int) -> tuple[int, bool]:
        with requests.Session() as client:
            client.trust_env = False
            answer = send_form(client, demo, "grace", PASSWORD)
            told = "You already have 3 sessions," in answer.text
            return answer.status_code, told

    with running(tmp_path, LIMIT_POLICY="refuse") as demo, ThreadPoolExecutor(12) as pool:
        answers = Counter(pool.map(answer, range(24)))
    # Who was early enough to get past the form reads it on a page of its own.
    assert answers.pop((302, False)) == 2
    assert answers.keys() <= {(200, True), (403, True)}


@pytest.mark.slow
def test_replay_runs_again_with_the_same_users_where_sign_ins_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "visits.csv"
    write_visits(file, users=2, visits=5)
    with running(tmp_path, LIMIT_POLICY="refuse") as demo:
        for _ in range(4):
            replay = demo.replay(file)
            report, _ = replay.communicate(timeout=40)
            assert (replay.returncode, "Differences  0" in report) == (0, True), report


@pytest.mark.slow
def test_replay_finds_every_session_history_and_count_as_the_file_says(demo: Demo, tmp_path: Path) -> None:
    file = tmp_path / "visits.csv"
    write_visits(file, users=6)
    replay = demo.replay(file)
    report, _ = replay.communicate(timeout=40)
    assert (replay.returncode, "Differences  0" in report) == (0, True), report


@pytest.mark.slow
@pytest.mark.parametrize("partitions", ["", "2"])
def test_replay_finds_the_partitions_of_the_demo_whatever_its_own_environment_says(
    tmp_path: Path, partitions: str
) -> None:
    file = tmp_path / "visits.csv"
    write_visits(file, users=6)
    with running(tmp_path, PARTITIONS="4") as demo, redis.Redis.from_url(demo.redis_url) as client:
        replay = demo.replay(file, PARTITIONS=partitions)
        report, _ = replay.communicate(timeout=40)
        assert client.hget("{redsess}:meta", "partitions") == b"4"
    assert (replay.returncode, "Differences  0" in report) == (0, True), report


@pytest.mark.slow
def test_commands_beside_the_demo_find_its_partitions_by_its_port(tmp_path: Path) -> None:
    with running(tmp_path, PARTITIONS="4") as demo:
        command = [sys.executable, "testproject/manage.py", "cleansessions", "--check"]
        env = environment(tmp_path, PORT=demo.env["PORT"])
        check = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=40)
    assert check.returncode == 0, check.stderr


@pytest.mark.slow
def test_demo_takes_no_partitions_from_one_that_was_killed_on_its_port(tmp_path: Path) -> None:
    env = environment(tmp_path, PORT=str(free_port()))
    (tmp_path / f"{env['PORT']}.json").write_text('{"redis_url": "redis://127.0.0.1:1/0", "partitions": 8}')
    with running(tmp_path, PORT=env["PORT"], PARTITIONS="2") as demo:
        assert json.loads(demo.state_file.read_text())["partitions"] == 2


@pytest.mark.slow
def test_replay_runs_again_with_the_same_users(demo: Demo, tmp_path: Path) -> None:
    file = tmp_path / "visits.csv"
    write_visits(file, users=2, visits=5)
    for _ in range(2):
        replay = demo.replay(file, "--workers", "1")
        report, _ = replay.communicate(timeout=40)
        assert replay.returncode == 0, report


@pytest.mark.slow
def test_replay_fails_when_somebody_else_views_an_item_meanwhile(demo: Demo, tmp_path: Path) -> None:
    file = tmp_path / "visits.csv"
    write_visits(file, users=3, items=1)
    amelia = sign_in(demo, "amelia", PASSWORD)
    replay = demo.replay(file)
    while replay.poll() is None:
        amelia.get(f"{demo.url}/products/item0/")
    report, _ = replay.communicate()
    assert replay.returncode == 1
    assert re.search(r"item item0: \d+ views instead of 180", report)
    assert "CommandError: The replay failed: 1 difference." in report


@pytest.mark.slow
def test_replay_fails_when_a_user_can_not_sign_in(demo: Demo, tmp_path: Path) -> None:
    file = tmp_path / "visits.csv"
    # The administrator has another password than the replay's users.
    file.write_text("user_id,event,timestamp\nadmin,item0,2026-01-05\n")
    replay = demo.replay(file)
    report, _ = replay.communicate(timeout=40)
    assert replay.returncode == 1
    assert "user admin could not sign in" in report
    assert "user admin: 0 sessions online instead of 1" in report
    assert "Traceback" not in report


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_demo_stops_all_that_it_started(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path) as demo:
        with redis.Redis.from_url(demo.redis_url) as client:
            valkey = int(client.info("server")["process_id"])
        os.killpg(demo.process.pid, number)
        assert demo.process.wait(timeout=20) == 0
        told = demo.output.read_text()
        assert told.endswith("The demo has stopped.\n")
        assert "Traceback" not in told
        assert not demo.state_file.exists()
        with pytest.raises(ProcessLookupError):
            os.kill(valkey, 0)
        with pytest.raises(requests.ConnectionError):
            requests.get(demo.url)


@pytest.mark.slow
def test_demo_on_a_cluster_spreads_its_sessions_over_all_primaries(tmp_path: Path) -> None:
    with running(tmp_path, CLUSTER="3") as demo:
        page = sign_in(demo, "admin", "admin").get(f"{demo.url}/admin/django_redsess/onlinesession/")
        assert page.status_code == 200
        assert [address for _, address, _ in SIGNED_IN if address not in page.text] == []
        stored, pids = [], []
        for url in demo.redis_url.split(","):
            with redis.Redis.from_url(url) as node:
                pids.append(node.info("server")["process_id"])
                if node.role()[0] == b"master":
                    stored.append(sum(node.hlen(name) for name in node.keys("*:login")))
        assert (len(pids), len(stored), sum(stored)) == (6, 3, len(SIGNED_IN) + GUESTS + 1)
        assert 0 not in stored
        check = subprocess.run(
            [sys.executable, "testproject/manage.py", "cleansessions", "--check"],
            cwd=ROOT,
            env=environment(tmp_path, PORT=demo.env["PORT"]),
            capture_output=True,
            text=True,
            timeout=40,
        )
        assert check.returncode == 0, check.stderr
        os.killpg(demo.process.pid, signal.SIGINT)
        assert demo.process.wait(timeout=20) == 0
    told = demo.output.read_text()
    assert (told.endswith("The demo has stopped.\n"), "Traceback" in told) == (True, False), told
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.slow
def test_second_demo_on_the_same_server_and_database_does_not_sign_its_shoppers_in_twice(tmp_path: Path) -> None:
    with (
        running(tmp_path) as first,
        running(tmp_path, REDIS_URL=first.redis_url),
        redis.Redis.from_url(first.redis_url) as client,
    ):
        assert client.zcard("{redsess}:online:user") == len(SIGNED_IN)
        # The past is not made up a second time, on top of the first.
        assert client.zcard("{redsess}:guests") == GUESTS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "error"),
    [
        ({"PORT": "here"}, "Error: PORT is 'here', which is no port: give a number"),
        ({"PORT": "70000"}, "Error: PORT is '70000', which is no port: give a number"),
        ({"PARTITIONS": "many"}, "Error: PARTITIONS is 'many': give a power of two from 1 to 1024"),
        ({"PARTITIONS": "0"}, "Error: PARTITIONS is '0': give a power of two from 1 to 1024"),
        ({"PARTITIONS": "3"}, "Error: PARTITIONS is '3': give a power of two from 1 to 1024"),
        ({"PARTITIONS": "2048"}, "Error: PARTITIONS is '2048': give a power of two from 1 to 1024"),
        (
            {"LIMIT_POLICY": "end_newest"},
            "Error: LIMIT_POLICY is 'end_newest': give end_oldest, end_least_recent or refuse, as in",
        ),
        ({"CLUSTER": "many"}, "Error: CLUSTER is 'many': give a number of primaries from 3 to 16"),
        ({"CLUSTER": "2"}, "Error: CLUSTER is '2': give a number of primaries from 3 to 16"),
        ({"CLUSTER": "3", "REDIS_URL": "redis://127.0.0.1:1/0"}, "Error: CLUSTER starts a cluster, REDIS_URL names"),
        (
            {"REDIS_URL": "redis://:secret@127.0.0.1:1/0,redis://:secret@127.0.0.1:2/0"},
            "Error: REDIS_URL, redis://127.0.0.1:1/0,redis://127.0.0.1:2/0, does not answer",
        ),
        ({"REDIS_URL": "redis://:secret@127.0.0.1:1/0"}, "Error: REDIS_URL, redis://127.0.0.1:1/0, does not answer"),
        ({"REDIS_URL": "localhost"}, "Error: REDIS_URL, localhost, does not answer"),
    ],
)
def test_demo_says_in_one_line_what_is_wrong(tmp_path: Path, env: dict[str, str], error: str) -> None:
    assert_refused(environment(tmp_path, **{"PORT": str(free_port()), **env}), error)


@pytest.mark.slow
def test_demo_says_that_a_server_keeps_its_sessions_in_another_number_of_partitions(tmp_path: Path) -> None:
    with running(tmp_path, PARTITIONS="2") as first:
        env = environment(tmp_path, PORT=str(free_port()), PARTITIONS="4", REDIS_URL=first.redis_url)
        second = subprocess.run(
            [sys.executable, "-m", "testproject.demo"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=40
        )
    assert second.returncode == 1
    assert second.stderr.startswith("Error: REDIS_URL and PARTITIONS do not go together. ")
    assert "are spread over 2 partitions" in second.stderr
    assert "Traceback" not in second.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "error"),
    [
        ({"PARTITIONS": "many"}, "REDSESS['PARTITIONS'] must be a power of two from 1 to 1024"),
        ({"PARTITIONS": "3"}, "REDSESS['PARTITIONS'] must be a power of two from 1 to 1024"),
        ({"LIMIT_POLICY": "none"}, "REDSESS['SESSION_LIMIT_POLICY'] must be one of"),
    ],
)
def test_commands_refuse_what_the_demo_would_refuse(tmp_path: Path, env: dict[str, str], error: str) -> None:
    check = subprocess.run(
        [sys.executable, "testproject/manage.py", "check"],
        cwd=ROOT,
        env=environment(tmp_path, **env),
        capture_output=True,
        text=True,
        timeout=40,
    )
    assert check.returncode == 1
    assert error in check.stderr


@pytest.mark.slow
def test_demo_says_in_one_line_that_its_port_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert_refused(environment(tmp_path, PORT=port), f"Error: port {port} can't be used (address already in use)")


def assert_refused(env: dict[str, str], error: str) -> None:
    demo = subprocess.run(
        [sys.executable, "-m", "testproject.demo"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=20
    )
    assert (demo.returncode, demo.stdout) == (1, "")
    assert re.fullmatch(re.escape(error) + ".*\n", demo.stderr)


def test_the_shop_imports_public_modules_only() -> None:
    imports = [
        node
        for path in (ROOT / "testproject").rglob("*.py")
        # It writes what the engine would not: a past.
        if path.name != "past.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "django_redsess"
    ]
    names = {f"{node.module}.{name.name}".split(".")[1] for node in imports for name in node.names}
    assert {"forms", "online", "viewed"} <= names <= PUBLIC
