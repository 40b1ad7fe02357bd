"""
Run tests with the site's database on each kind of database server that is installed: ``make test-databases``.

Other tests have SQLite. Of MariaDB, mysqlclient is needed, too: ``pip install mysqlclient`` compiles it.
"""

import argparse
import json
import os
import subprocess
import sys
from contextlib import closing

from testproject.databases import KINDS, available

TESTS = ("tests/contrib/history", "tests/contrib/api/test_sign_ins.py", "tests/golden/test_rows.py")
"""What asks the database in earnest: rows, their pages and filters, exports, repair. Tables are made by migrations."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.helpers.databases",
        description="Run the tests of the sign-in history on each kind of database server that is installed.",
        epilog="Other arguments go to pytest: python -m tests.helpers.databases --only MariaDB -n 0 -k prune",
    )
    parser.add_argument("--only", choices=KINDS, help="one kind of server")
    options, arguments = parser.parse_known_args()
    found = available()
    wanted = [options.only] if options.only else [*KINDS]
    missing = [name for name in wanted if name not in found]
    for name in missing:
        print(f"{name}: skipped, because it is not installed, or its driver is not: {KINDS[name]}.")
    if missing and (options.only or "REDSESS_SKIP_NOTHING" in os.environ):
        return 1
    failed = 0
    for name in wanted:
        if name in found:
            print(f"{name}:", flush=True)
            with closing(found[name]()) as server:
                environment = {**os.environ, "TEST_DATABASE": json.dumps(server.database)}
                pytest = [sys.executable, "-m", "pytest", "--ds=tests.helpers.site.settings.other_database"]
                failed += subprocess.run([*pytest, *arguments, *TESTS], env=environment).returncode
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
