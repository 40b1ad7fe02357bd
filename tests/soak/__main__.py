"""The command: ``python -m tests.soak``."""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

DESCRIPTION = """\
Soak the whole shop: servers behind a sentinel, web processes, a cleaner, visitors, and a week of operations.

Visitors click as recorded, RATE times a second. Meanwhile all events of a week happen, in an order that the seed
decides: deploys, a new SECRET_KEY, encryption on and off, moves to another store, kills and freezes of servers, web
processes and the cleaner, failovers, seven nights (the servers' clock jumps by a day each), an hour back; and beside
them what support and cron do: ends, blocks, new passwords, checks, repairs, prunes.

A run of N minutes has the events of one week, evenly spread over them, and 60 * N * RATE clicks. Two hours are the
usual length, and ten minutes about the shortest: an event that is late begins when the one before is done, and the run
goes on until all have happened. With --only, the named events happen, each as often as it is named.
It runs the files of the working tree: change nothing there meanwhile.

Of each visitor it is known at each moment whether the session must be there, must be over, or may be either, and what
it holds. It fails if an answer says otherwise, if anything else than an announced outage is answered by 503, if memory
or descriptors of a process grow, or if the keys of the store disagree at the end.
"""

EPILOG = """\
Exit status: 0 if nothing was wrong, 1 if something was, 130 after Ctrl-C, which ends the run with a report so far.

Examples:
  python -m tests.soak --minutes 10
  python -m tests.soak --traffic visits.csv --seed 7
  python -m tests.soak --minutes 1 --only night --only kill-server
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=120, metavar="N", help="how long (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=20, help="clicks a second (default: %(default)s)")
    parser.add_argument("--visitors", type=int, default=200, help="how many browsers (default: %(default)s)")
    parser.add_argument(
        "--traffic",
        type=Path,
        metavar="FILE",
        help="recorded visits: a CSV file with the columns user_id, event and timestamp (default: made up)",
    )
    parser.add_argument("--seed", type=int, help="of the order of events (default: another one each time)")
    parser.add_argument("--only", action="append", default=[], metavar="EVENT", help="can be repeated")
    options = parser.parse_args(arguments)
    seed = random.randrange(10**6) if options.seed is None else options.seed
    return _in_own_session(lambda: _soak(parser, options, seed))


def _in_own_session(work: Callable[[], int]) -> int:
    """
    Do it in a process of its own, and return the exit status.

    A terminal sends Ctrl-C to all processes of a session. Here, only ``work`` gets it: it ends the servers itself.
    """
    pid = os.fork()
    if pid == 0:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler)
        return work()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: os.kill(pid, number))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _soak(parser: argparse.ArgumentParser, options: argparse.Namespace, seed: int) -> int:
    with tempfile.TemporaryDirectory(prefix="redsess-soak-") as folder:
        os.environ |= {"DJANGO_SETTINGS_MODULE": "tests.soak.settings", "REDSESS_DEMO_DIR": folder, "HISTORY": "1"}
        try:
            return _soak_in(Path(folder), parser, options, seed)
        except KeyboardInterrupt:
            print("interrupted before it began")
            return 130


def _soak_in(folder: Path, parser: argparse.ArgumentParser, options: argparse.Namespace, seed: int) -> int:
    import django

    django.setup()
    # Only now: they have models.
    from testproject.replay import ReplayError
    from tests.soak import operations, support
    from tests.soak.ledger import Ledger
    from tests.soak.report import passes, report
    from tests.soak.run import Run, name_of, names
    from tests.soak.shop import running
    from tests.soak.traffic import PRODUCTS, made, recorded

    kinds = [name_of(kind) for kind in (*operations.WEEK, *operations.CLOCKS, *support.WEEK)]
    if unknown := set(options.only) - set(kinds):
        parser.error(f"there is no event {min(unknown)}: choose from {', '.join(kinds)}")
    try:
        clicks = recorded(options.traffic) if options.traffic else made(random.Random(f"traffic {seed}"))
    except (OSError, ReplayError) as error:
        parser.error(f"{options.traffic}: {error}")
    print(f"seed {seed}", flush=True)
    interrupted = False
    with running(folder, names(options.visitors), PRODUCTS) as shop:
        ledger = Ledger()
        run = Run(shop, ledger, minutes=options.minutes, rate=options.rate, visitors=options.visitors, seed=seed)
        try:
            run.go(clicks, options.only)
            run.last_checks()
        except KeyboardInterrupt:
            interrupted = True
        print(report(run, seed=seed, interrupted=interrupted), flush=True)
    return 1 if not passes(run) else 130 if interrupted else 0


if __name__ == "__main__":
    sys.exit(main())
