"""``endsessions``: what it ends and what it leaves, what it asks before, and how it is stopped."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from benchmarks.fill import fill
from django_redsess import online
from django_redsess.online import listing, searching
from django_redsess.signals import EndedSession, sessions_ended
from tests.helpers.online import notice_of, sign_in
from tests.helpers.store import dump, have_agreed, make_due, stored
from tests.management.test_online import visit
from tests.online.test_searches import CHROME, FIREFOX

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).parents[2]

GONE = "x" * 20  # It has the form of a sid.

WRONG = {
    "nobody": [],
    "all and one": ["--all", "alice"],
    "unknown ones": ["alice", "nobody"],
    "a name in red": ["\x1b[31m"],
    "a key that is taken in a dry run": ["--all", "--new-secret-key", "--dry-run"],
    "a long reason": ["alice", "--message", "x" * 201],
    "what is gone is to stay": ["alice", "--keep", GONE],
    "a session of a network": ["--network", "198.51.100.7", GONE],
    "a user is to stay": ["--all", "--keep", "bob"],
}


def run(*arguments: str, **options: Any) -> list[str]:
    """End without being asked, and return the lines that are printed."""
    out = StringIO()
    call_command("endsessions", *arguments, stdout=out, **{"interactive": False, **options})
    return out.getvalue().splitlines()


def left() -> list[str]:
    """The user names of those who are still signed in, by sign-in."""
    users = User.objects.in_bulk()
    return [users[int(session.user_id)].username for session in online.sessions(order="created_at", limit=1000)]


@pytest.fixture
def users() -> dict[str, User]:
    return {name: User.objects.create_user(name) for name in ("alice", "bob", "carol")}


@pytest.fixture
def sids(users, new_session) -> list[str]:
    """The sids of two sessions of alice, then one of bob and one of carol."""
    return sign_in(new_session, *(str(users[name].pk) for name in ("alice", "alice", "bob", "carol")))


@contextmanager
def on_each_end(do: Callable[[], object]) -> Iterator[None]:
    def receive(sessions: list[EndedSession], **_: Any) -> None:
        for _ in sessions:
            do()

    sessions_ended.connect(receive)
    try:
        yield
    finally:
        sessions_ended.disconnect(receive)


@pytest.mark.usefixtures("partitions")
def test_a_user_is_signed_out_everywhere_and_nobody_else(sids) -> None:
    assert run("alice") == ["alice: 2 sessions", "Ended 2 sessions of 1 user."]
    assert left() == ["bob", "carol"]


@pytest.mark.usefixtures("partitions")
def test_a_session_is_ended_by_its_sid_and_what_is_named_twice_is_counted_once(sids, new_session) -> None:
    guest = new_session(colour="blue")
    assert run(sids[0], guest.sid)[-1] == "Ended 2 sessions of 1 user and 1 guest."
    assert left() == ["alice", "bob", "carol"]
    assert run("alice", "alice", sids[1], sids[2], sids[2])[-1] == "Ended 2 sessions of 2 users."
    assert left() == ["carol"]


@pytest.mark.usefixtures("partitions")
def test_all_ends_every_session_in_which_somebody_is_signed_in(redis, sids, new_session) -> None:
    guest = new_session(colour="blue")
    assert run("--all") == ["Ended 4 sessions of 3 users."]
    assert online.count() == 0
    assert online.get(guest.sid) is not None


@pytest.mark.usefixtures("partitions")
def test_what_is_to_stay_stays(sids) -> None:
    assert run("alice", "--keep", sids[0]) == ["alice: 1 session, and 1 to keep", "Ended 1 session of 1 user."]
    assert run("--all", "--keep", sids[0], "--keep", sids[3]) == ["Ended 1 session of 1 user."]
    # Though it is named.
    assert run(sids[0], "--keep", sids[0])[-1] == "There is nothing to end."
    assert [session.sid for session in online.sessions()] == [sids[3], sids[0]]


@pytest.fixture
def arrived(users, new_session) -> dict[str, str]:
    """Sids by address: two of alice, one of bob, one of carol."""
    agents = {"198.51.100.7": CHROME, "203.0.113.7": FIREFOX, "198.51.100.9": FIREFOX, "2001:db8::7": CHROME}
    sids = {}
    for name, (address, agent) in zip(("alice", "alice", "bob", "carol"), agents.items(), strict=True):
        session = new_session(str(users[name].pk))
        visit(session, address=address, user_agent=agent)
        sids[address] = session.sid
    return sids


@pytest.mark.usefixtures("partitions")
def test_sessions_of_networks_and_browsers_end_and_no_others(arrived, tmp_path) -> None:
    exits = tmp_path / "exits.txt"
    exits.write_text("198.51.100.9\n# IPv6\n2001:db8::/32\n")
    dry = run("--network", f"@{exits}", "--network", "203.0.113.7", dry_run=True)
    assert (sorted(dry[:-1]), dry[-1]) == (
        ["alice: 1 session", "bob: 1 session", "carol: 1 session"],
        "Would end 3 sessions of 3 users.",
    )
    assert len(left()) == 4
    assert run("alice", "--network", "198.51.100") == ["alice: 1 session", "Ended 1 session of 1 user."]
    assert sorted(left()) == ["alice", "bob", "carol"]
    assert run("--browser", "firefox", "--keep", arrived["198.51.100.9"])[-1] == "Ended 1 session of 1 user."
    assert sorted(left()) == ["bob", "carol"]
    assert run("--network", f"@{exits}", "--json", stderr=StringIO()) == ['{"ended": 2}']
    assert run("--network", "0.0.0.0/0") == ["There is nothing to end."]


def test_a_network_ends_the_oldest_sessions_too(arrived, monkeypatch) -> None:
    # A search looks through the newest only.
    monkeypatch.setattr(searching, "SCAN_LIMIT", 1)
    monkeypatch.setattr(listing, "PAGE_SIZE", 1)
    assert run("--network", "0.0.0.0/0")[-1] == "Ended 3 sessions of 2 users."
    assert left() == ["carol"]


def test_an_empty_list_of_networks_ends_nothing(arrived, tmp_path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text("# nothing today\n")
    assert run("--network", f"@{empty}") == ["The list of networks is empty. There is nothing to end."]
    assert len(left()) == 4


def test_a_session_that_is_gone_is_over_already(redis, sids) -> None:
    make_due(redis, sids[0])
    assert run(GONE, sids[0], sids[2])[-1] == "Ended 1 session of 1 user."


def test_a_name_in_the_form_of_a_sid_is_a_user_and_one_that_is_a_session_too_is_refused(sids, new_session) -> None:
    user = User.objects.create_user("abcdefghijklmnopqrst")
    sign_in(new_session, str(user.pk))
    assert run(user.username)[-1] == "Ended 1 session of 1 user."
    User.objects.create_user(sids[0])
    with pytest.raises(CommandError, match=f"A user and a session have this name: {re.escape(sids[0])}. Nothing was"):
        run(sids[0], "bob")
    assert len(left()) == 4


def test_a_user_name_does_not_act_on_a_terminal(new_session) -> None:
    user = User.objects.create(username="\x1b[31mred")
    [sid] = sign_in(new_session, str(user.pk))
    assert all(line.isprintable() for line in run(sid))
    sign_in(new_session, str(user.pk))
    assert run("\x1b[31mred")[0] == r"'\x1b[31mred': 1 session"


def test_where_anything_is_wrong_nothing_is_ended(sids) -> None:
    for case, arguments in WRONG.items():
        with pytest.raises(CommandError) as raised:
            run(*arguments)
        assert str(raised.value).isprintable(), case
        assert len(left()) == 4, case


def test_users_read_why_their_session_was_ended(users, new_session) -> None:
    sessions = [new_session(str(users[name].pk)) for name in ("alice", "bob")]
    run("alice", sessions[1].sid, "--message", "We have moved.")
    assert [notice_of(session).message for session in sessions] == ["We have moved."] * 2


def test_json_counts_and_is_all_that_is_on_stdout_and_verbosity_0_is_silent(sids) -> None:
    said = StringIO()
    assert [json.loads(line) for line in run("alice", GONE, sids[2], json=True, stderr=said)] == [{"ended": 3}]
    assert [json.loads(line) for line in run("alice", json=True, stderr=said)] == [{"ended": 0}]
    assert said.getvalue().splitlines()[-1] == "There is nothing to end."
    assert run(sids[3], GONE, verbosity=0) == left() == []


@pytest.mark.parametrize("word", ["y", " Yes "])
def test_a_yes_ends_what_was_asked_about(sids, answer, word: str) -> None:
    answer(f"{word}\n")
    asked, ended = run("alice", sids[2], interactive=True)[-2:], "Ended 3 sessions of 2 users."
    assert "".join(asked).endswith(f"End 3 sessions of 2 users? [y/N] {ended}")
    assert left() == ["carol"]


def test_any_other_answer_ends_nothing(sids, answer) -> None:
    for typed in ("\n", "n\n", "no\n", "ye\n", "yess\n", "j\n", "\x04"):
        answer(typed)
        assert run("alice", interactive=True)[-1].endswith("Nothing was ended.")
        assert len(left()) == 4


def test_a_question_leaves_stdout_to_json(sids, answer) -> None:
    answer("y\n")
    said = StringIO()
    assert run("bob", json=True, interactive=True, stderr=said) == ['{"ended": 1}']
    assert "End 1 session of 1 user? [y/N] " in said.getvalue()


def test_who_is_not_signed_in_is_nothing_to_do_nor_to_ask(users, answer) -> None:
    for name in ("alice", "--all", GONE):
        for interactive in (False, True):
            assert run(name, interactive=interactive)[-1] == "There is nothing to end."


@pytest.mark.usefixtures("partitions")
def test_a_dry_run_shows_what_would_end_and_ends_nothing(redis, sids) -> None:
    have_agreed()
    before = dump(redis)
    for interactive in (False, True):
        dry = {"dry_run": True, "interactive": interactive}
        assert run("alice", sids[2], **dry)[-1] == "Would end 3 sessions of 2 users."
        assert run("--all", "--keep", sids[0], **dry) == ["Would end 3 sessions, all that are signed in."]
        assert run("alice", json=True, stderr=StringIO(), **dry) == ['{"would_end": 2}']
    assert dump(redis) == before


def test_without_a_terminal_a_name_that_is_none_is_told_first(sids) -> None:
    with pytest.raises(CommandError, match=r"There is no user or session nobody\."):
        run("nobody", interactive=True)
    with pytest.raises(CommandError, match="--noinput"):
        run("alice", interactive=True)
    assert online.count() == 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_after_the_batch_and_it_counts(redis, number: signal.Signals) -> None:
    fill(redis, 600, viewed=0, users=1)
    told = StringIO()
    # Once: at a second signal it would stop at once.
    own = iter([os.getpid()])
    error = r"^Stopped\. Ended 250 sessions of 1 user\.$"
    with on_each_end(lambda: [os.kill(pid, number) for pid in own]), pytest.raises(CommandError, match=error) as raised:
        call_command("endsessions", "--all", "--json", interactive=False, stdout=told)
    assert raised.value.returncode == 130
    assert json.loads(told.getvalue()) == {"ended": 250}
    assert stored(redis) == 350


def test_an_outage_in_the_middle_tells_how_far_it_came(own_server, new_session) -> None:
    for _ in range(251):
        new_session("7")
    error = "can't be reached. Before that, 250 sessions of 1 user were ended; run it again."
    with on_each_end(own_server.stop), pytest.raises(CommandError, match=re.escape(error)):
        run("--all")
    own_server.start()
    # Later tests are to meet no outage that is known already.
    online.count()


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Press Ctrl-C; once more after a while, as a person would. A signal just before a read begins is seen after it."""
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "status", "online_then"),
    [pytest.param("y\n", 0, 0, marks=pytest.mark.slow), (None, 130, 300)],
    ids=["yes", "Ctrl-C"],
)
def test_on_a_terminal_it_asks_and_ctrl_c_ends_none(server, redis, tmp_path, typed, status, online_then: int) -> None:
    fill(redis, 300, viewed=0, users=1)
    ear, mouth = pty.openpty()
    termios.tcsetwinsize(mouth, (24, 100))
    command = [sys.executable, "testproject/manage.py", "endsessions", "--all"]
    environ = {**os.environ, "REDIS_URL": server.url, "REDSESS_DEMO_DIR": str(tmp_path)}
    shown = b""
    with subprocess.Popen(command, cwd=ROOT, env=environ, stdin=mouth, stdout=mouth, stderr=mouth) as process:
        os.close(mouth)
        # Once nobody holds the other end any more, reading is an error.
        with suppress(OSError):
            while part := os.read(ear, 65536):
                shown += part
                if shown.endswith(b"[y/N] "):
                    assert b"300 sessions" in shown
                    assert online.count() == 300
                    os.write(ear, typed.encode()) if typed else interrupt(process)
    os.close(ear)
    assert (process.returncode, b"Traceback" in shown) == (status, False)
    assert online.count() == online_then
