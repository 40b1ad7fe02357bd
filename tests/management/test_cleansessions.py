"""``cleansessions`` as it is called: its passes, what it says, its options, and how it runs as a service."""

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis as redis_py
from django.core.management import CommandError, call_command

from django_redsess import cleaning as cleaner
from django_redsess import online
from django_redsess.management import cleaning_command
from testproject import servers
from tests.helpers.online import sign_in
from tests.helpers.outages import frozen
from tests.helpers.running import asleep, wait_until
from tests.helpers.store import dump, have_agreed, have_views, keyspace, make_due, make_seen, sid_of, stored, text_of
from tests.management.test_endsessions import on_each_end


def fill_with_due(client: redis_py.Redis, new_session: Callable[..., Any], count: int) -> None:
    """Have ``count`` sessions of guests that are due: written at once, as creating them takes much longer."""
    space = keyspace()
    session = new_session(colour="blue")
    record = client.hget(space.of_sid(session.sid).login, session.sid)
    make_due(client, session.sid)
    sids = [sid_of(f"{number:032}") for number in range(count - 1)]
    with client.pipeline() as together:
        for partition in space.partitions:
            here = [sid for sid in sids if space.of_sid(sid) == partition]
            together.hset(partition.login, mapping=dict.fromkeys(here, record))
            together.zadd(partition.expire, dict.fromkeys(here, 1))
            together.zadd(partition.guests, dict.fromkeys(here, 1))
        together.execute()


def removed_by(said: str) -> int:
    summary = json.loads(said.splitlines()[-1])
    return int(summary["expired"] + summary["evicted"])


@pytest.fixture
def nowhere() -> str:
    return f"redis://127.0.0.1:{servers.free_port()}/0"


@pytest.mark.usefixtures("partitions")
def test_no_batch_is_larger_than_asked(redis, new_session, commands, capsys) -> None:
    sessions = [new_session("7" if number % 2 else str(number)) for number in range(30)]
    make_due(redis, *(session.sid for session in sessions[:10]))
    sizes = [redis.zcount(partition.expire, 0, 1) for partition in keyspace().partitions]
    # The server learns these scripts.
    cleaner.seconds_to_next_deadline()
    cleaner.count_backlog()
    commands()
    call_command("cleansessions", batch_size=3, verbosity=2)
    batches = [int(size) for size in re.findall(r"^expired: (\d+)$", capsys.readouterr().out, re.MULTILINE)]
    assert sum(batches) == 10
    assert max(batches) <= 3
    # And none is smaller than needed: one call for every three, and one for what is too much. (One more finds nothing
    # where the last was on its way already.) Several partitions are first asked twice who has work.
    needed = sum(-(-size // 3) for size in sizes) + (1 if len(sizes) == 1 else 2 * len(sizes))
    assert needed <= commands()["evalsha"] <= needed + len(sizes)


@pytest.mark.parametrize(("option", "kind"), [("expired", "expired"), ("excess", "evicted")])
def test_a_batch_ends_at_a_megabyte_of_records(redis, new_session, commands, capsys, option: str, kind: str) -> None:
    sessions = [new_session("7", letter=text_of(300_000)) for _ in range(9)]
    if option == "expired":
        make_due(redis, *(session.sid for session in sessions))
    commands()
    call_command("cleansessions", only=option, max_sessions=1, verbosity=2)
    # Three of 300 kB are less than a megabyte, and four are more.
    batches = [3, 3, 3] if option == "expired" else [2, 3, 3]
    # Two are under way at once, and may be told of in either order.
    assert sorted(int(size) for size in re.findall(rf"{kind}: (\d+)\n", capsys.readouterr().out)) == batches
    # One more finds nothing: it was on its way already.
    assert commands()["evalsha"] in (3, 4)


def test_a_record_above_a_megabyte_goes_alone(redis, new_session) -> None:
    sessions = [new_session("7", letter=text_of(size)) for size in (1_200_000, 1_200_000, 20)]
    make_due(redis, *(session.sid for session in sessions))
    call_command("cleansessions", verbosity=0)
    assert stored(redis) == 0


@pytest.mark.usefixtures("partitions")
def test_max_sessions_goes_before_the_setting(redis, new_session, settings) -> None:
    for number in range(40):
        new_session(str(number))
    # So many that not even a partition that has them all has too many.
    settings.REDSESS = {"MAX_SESSIONS": 160}
    call_command("cleansessions", verbosity=0)
    assert stored(redis) == 40
    call_command("cleansessions", max_sessions=8, verbosity=0)
    # Each partition keeps its share.
    assert 0 < stored(redis) <= 8


@pytest.mark.both_servers
@pytest.mark.parametrize(("only", "expired", "evicted"), [("expired", 3, 0), ("excess", 0, 5), (None, 3, 2)])
@pytest.mark.parametrize("dry_run", [True, False], ids=["dry run", "real run"])
def test_only_the_asked_kind_is_taken_out(
    redis, new_session, capsys, only, expired: int, evicted: int, dry_run: bool
) -> None:
    sids = [new_session("7").sid for _ in range(10)]
    for number, sid in enumerate(sids):
        make_seen(redis, sid, 1000 + number)
    # The last that were seen. Were the longest unseen ended first, as many would stay as the maximum, but others.
    make_due(redis, *sids[-3:])
    call_command("cleansessions", only=only, max_sessions=5, dry_run=dry_run, json=True)
    summary = json.loads(capsys.readouterr().out)
    assert (summary.get("expired", 0), summary.get("evicted", 0)) == (expired, evicted)
    left = {sid.decode() for sid in redis.hkeys(keyspace().partitions[0].login)}
    assert left == set(sids if dry_run else sids[evicted : 10 - expired])


@pytest.mark.parametrize(("maximum", "guests"), [(120, None), (120, 40), (30, None)])
def test_a_dry_run_counts_as_a_real_one_ends(
    redis, new_session, partitions, settings, capsys, maximum: int, guests: int | None
) -> None:
    sessions = [new_session(str(number % 9) if number % 3 == 0 else "") for number in range(190)]
    make_due(redis, *(session.sid for session in sessions[::10]))
    settings.REDSESS = {**settings.REDSESS, "MAX_GUESTS": guests}
    counts = []
    for dry_run in (True, False):
        call_command("cleansessions", max_sessions=maximum, dry_run=dry_run, json=True)
        summary = json.loads(capsys.readouterr().out)
        counts.append((summary["expired"], summary["evicted"]))
    assert counts[0] == counts[1]
    assert counts[0][0] == 19
    signed_in = online.count()
    of_guests = online.count(guests=True) - signed_in
    if partitions == 1:
        # 57 of each three are left that are not due, and 114 of guests.
        expected = {(120, None): (57, 100), (120, 40): (57, 40), (30, None): (30, 30)}
        assert (signed_in, of_guests) == expected[maximum, guests]


@pytest.mark.usefixtures("partitions")
def test_a_dry_run_changes_nothing(redis, new_session) -> None:
    make_due(redis, *[new_session("7", colour="blue").sid for _ in range(6)][:2])
    have_agreed()
    before = dump(redis)
    call_command("cleansessions", max_sessions=1, dry_run=True)
    assert dump(redis) == before


def test_json_is_all_that_is_on_stdout(redis, new_session, capsys) -> None:
    make_due(redis, *(new_session("7").sid for _ in range(3)))
    # Later passes have no work, and say as much.
    for verbosity, due in ((2, stored(redis)), (1, 0), (0, 0)):
        call_command("cleansessions", json=True, verbosity=verbosity)
        [line] = capsys.readouterr().out.splitlines()
        summary = json.loads(line)
        assert summary.pop("seconds") >= 0
        assert (summary.pop("per_second") > 0) == (due > 0)
        assert summary == {"expired": due, "evicted": 0, "stopped": False}


@pytest.mark.parametrize("command", ["cleansessions", "cleanviewed"])
def test_verbosity_0_is_silent_whatever_there_is_to_do(redis, new_session, capsys, command: str) -> None:
    make_due(redis, *(new_session("7").sid for _ in range(3)))
    have_views(redis, {"lamp": 1})
    call_command(command, verbosity=0)
    assert capsys.readouterr() == ("", "")


def test_a_pass_that_was_stopped_says_so_in_its_last_line(redis, new_session, capsys) -> None:
    make_due(redis, *(new_session("7").sid for _ in range(5)))
    own = iter([os.getpid()])
    with on_each_end(lambda: [os.kill(pid, signal.SIGINT) for pid in own]), pytest.raises(CommandError) as raised:
        call_command("cleansessions", batch_size=1)
    assert str(raised.value).startswith("Stopped. Removed 1 expired sessions")
    assert (raised.value.returncode, capsys.readouterr().out) == (1, "")


@pytest.mark.slow
@pytest.mark.both_servers
def test_forever_is_woken_by_an_earlier_deadline_and_by_no_later_one(redis, new_session, start, commands) -> None:
    new_session("7", _session_expiry=3600)
    command = start("cleansessions", "--forever")
    wait_until(lambda: asleep(redis))
    commands()
    session = new_session("7", _session_expiry=1)
    login, due_at = keyspace().of_sid(session.sid).login, time.monotonic() + 1
    for _ in range(5):
        new_session("7")
    # Looked at behind the engine's back: its own reading would end what is due.
    wait_until(lambda: not redis.hexists(login, session.sid))
    # Unless woken, it sleeps for five seconds.
    assert -0.2 < time.monotonic() - due_at < 2
    assert commands()["lpush"] == 1
    assert stored(redis) == 6
    wait_until(lambda: asleep(redis))
    assert command.stop(signal.SIGINT) == (0, "")
    assert asleep(redis) == 0


def test_forever_trims_to_the_maximum_too_and_a_signal_ends_its_sleep(redis, new_session, start) -> None:
    sids = sign_in(new_session, *"77777")
    make_due(redis, sids[0])
    command = start("cleansessions", "--forever", "--max-sessions", "2")
    wait_until(lambda: asleep(redis))
    assert [session.sid for session in online.sessions(order="created_at")] == sids[-2:]
    assert command.stop(signal.SIGTERM) == (0, "")
    assert asleep(redis) == 0


@pytest.mark.parametrize(
    ("number", "forever"),
    [
        ("SIGTERM", []),
        *(pytest.param(*run, marks=pytest.mark.slow) for run in (("SIGINT", []), ("SIGTERM", ["--forever"]))),
    ],
)
def test_a_signal_ends_a_pass_after_the_batch(redis, new_session, start, number: str, forever: list[str]) -> None:
    fill_with_due(redis, new_session, 8_000)
    command = start("cleansessions", "--batch-size", "1", "--json", *forever)
    wait_until(lambda: stored(redis) < 8_000)
    status, said = command.stop(signal.Signals[number])
    assert status == int(not forever)
    assert said.startswith("CommandError: Stopped. ") == bool(status)
    assert json.loads(command.stdout)["stopped"] is True
    assert stored(redis) > 0
    assert removed_by(command.stdout) + stored(redis) == 8_000


@pytest.mark.slow
def test_two_cleaners_share_the_work(redis, new_session, start) -> None:
    new_session("7")
    cleaners = [start("cleansessions", "--forever", "--batch-size", "1", "--json") for _ in range(2)]
    # One is not to be done before the other has started.
    wait_until(lambda: asleep(redis) == 2)
    fill_with_due(redis, new_session, 2000)
    redis.lpush(keyspace().partitions[0].wake, "for one", "for the other")
    wait_until(lambda: stored(redis) == 1)
    assert [cleaner.stop() for cleaner in cleaners] == [(0, "")] * 2
    one, other = (removed_by(cleaner.stdout) for cleaner in cleaners)
    assert (one + other, one > 0, other > 0) == (2000, True, True)
    # Each of them was ended once.
    assert int(redis.hget(keyspace().partitions[0].totals, "expired")) == 2000


@pytest.mark.both_servers
@pytest.mark.slow
def test_the_heartbeat_stops_with_the_server(own_server, new_session, start, tmp_path) -> None:
    # Each deadline is a moment at which the cleaner asks the server.
    for number in range(60):
        new_session("7", _session_expiry=1 + number / 4)
    heart = tmp_path / "heart"
    start("cleansessions", "--forever", "--heartbeat", str(heart), url=own_server.url)
    wait_until(heart.exists)
    for _ in range(2):
        before = heart.stat().st_mtime_ns
        wait_until(lambda before=before: heart.stat().st_mtime_ns > before)
    with frozen(own_server):
        # The last answer may have been on its way.
        time.sleep(0.5)
        before = heart.stat().st_mtime_ns
        time.sleep(1.5)
        assert heart.stat().st_mtime_ns == before
    wait_until(lambda: heart.stat().st_mtime_ns > before)


@pytest.mark.both_servers
@pytest.mark.slow
def test_forever_waits_for_a_server_that_is_started_again(own_server, new_session, start) -> None:
    command = start("cleansessions", "--forever", url=own_server.url, PAUSE_SECONDS_MAX=0.3)
    wait_until(lambda: asleep(own_server.client))
    own_server.stop()
    wait_until(lambda: command.stderr)
    # Time for several more tries, of which nothing is to be said in the first minute.
    time.sleep(1)
    own_server.start()
    wait_until(lambda: "reached again" in command.stderr)
    wait_until(lambda: asleep(own_server.client))
    session = new_session("7", _session_expiry=0.3)
    wait_until(lambda: not own_server.client.hexists(keyspace().of_sid(session.sid).login, session.sid))
    status, said = command.stop()
    assert status == 0
    # The outage is told once, and its end.
    assert len(said.splitlines()) == 2


@pytest.mark.slow
def test_forever_outlasts_a_long_outage_and_reminds_of_it_at_growing_intervals(own_server, new_session, start) -> None:
    # It is waited for many times as long as a single pass would wait.
    short = {"PATIENCE_SECONDS": 0.2, "PAUSE_SECONDS_MAX": 0.1, "REMINDER_SECONDS_MIN": 0.3}
    command = start("cleansessions", "--forever", url=own_server.url, **short)
    wait_until(lambda: asleep(own_server.client))
    own_server.stop()
    wait_until(lambda: command.stderr.count("still out of reach") == 4)
    own_server.start()
    wait_until(lambda: "reached again" in command.stderr)
    session = new_session("7", _session_expiry=0.3)
    wait_until(lambda: not own_server.client.hexists(keyspace().of_sid(session.sid).login, session.sid))
    status, said = command.stop()
    assert (status, len(said.splitlines())) == (0, 6)
    assert said.count("Connection refused") == 5, "each says why"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["cleansessions", "cleanviewed --noinput"])
def test_one_pass_that_finds_no_server_ends_at_once(start, nowhere, command: str) -> None:
    # It would wait for longer than the test.
    status, said = start(*command.split(), url=nowhere, PAUSE_SECONDS_MIN=300).ended()
    _, given_up = said.splitlines()
    assert (status, given_up.startswith("CommandError: The server that holds the sessions can't be reached: ")) == (
        1,
        True,
    )


@pytest.mark.slow
def test_one_pass_under_way_gives_up_a_server_that_stays_away(own_server, new_session, monkeypatch, capsys) -> None:
    monkeypatch.setattr(cleaning_command, "PATIENCE_SECONDS", 0.5)
    make_due(own_server.client, *(new_session("7").sid for _ in range(4)))
    stopping = iter([own_server.stop])
    said = "What to change: .* run it again"
    with on_each_end(lambda: [stop() for stop in stopping]), pytest.raises(CommandError, match=said):
        call_command("cleansessions", batch_size=1)
    own_server.start()
    online.count()


@pytest.mark.slow
def test_a_short_outage_late_in_a_long_pass_is_waited_for(own_server, new_session, monkeypatch, capsys) -> None:
    monkeypatch.setattr(cleaning_command, "PATIENCE_SECONDS", 4)
    make_due(own_server.client, *(new_session("7").sid for _ in range(4)))
    starting: list[threading.Timer] = []

    def take_long() -> None:
        # The pass is older than that patience when the server goes.
        if not starting:
            time.sleep(4.5)
            own_server.stop()
            starting.append(threading.Timer(0.5, own_server.start))
            starting[0].start()

    with on_each_end(take_long):
        call_command("cleansessions", batch_size=1, json=True)
    starting[0].join()
    # The others were lost with the server, which keeps nothing.
    assert json.loads(capsys.readouterr().out)["expired"] == 1


@pytest.mark.slow
def test_a_signal_ends_the_wait_for_a_server_and_that_is_no_heartbeat(start, nowhere, tmp_path) -> None:
    heart = tmp_path / "heart"
    # A pause that is much longer than the test waits.
    command = start(
        *("cleansessions", "--json", "--forever", "--heartbeat", str(heart)),
        url=nowhere,
        PAUSE_SECONDS_MIN=300,
        PAUSE_SECONDS_MAX=300,
    )
    wait_until(lambda: command.stderr)
    status, said = command.stop()
    # One line for the outage.
    assert (status, len(said.splitlines())) == (0, 1)
    assert json.loads(command.stdout)["stopped"] is True
    assert not heart.exists()
