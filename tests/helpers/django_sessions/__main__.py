"""
Run the tests that Django has for its session engines on ours: ``python -m tests.helpers.django_sessions``.

Django's wheel is without its tests. They are taken out of the sdist of the version that is installed, which pip gets,
and kept in the virtual environment. Arguments go to pytest.
"""

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import django
import pytest

HERE = Path(__file__).parent

TESTS = "sessions_tests"


def fetched(version: str) -> Path:
    """Return a folder with the tests of that version of Django."""
    folder = Path(sys.prefix) / "django-tests" / version
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / TESTS).exists():
        with tempfile.TemporaryDirectory(dir=folder) as name:
            part = Path(name, TESTS)
            part.mkdir()
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "django"]
            subprocess.run([*pip, "--dest", name, f"django=={version}"], check=True)
            [sdist] = Path(name).glob("*.tar.gz")
            with tarfile.open(sdist) as archive:
                for member in archive:
                    path = Path(member.name)
                    content = archive.extractfile(member)
                    if path.parts[1:-1] == ("tests", TESTS) and content:
                        (part / path.name).write_bytes(content.read())
            # Last and at once: a run that is broken off leaves nothing that looks complete.
            part.rename(folder / TESTS)
    return folder


def main() -> int:
    sys.path.insert(0, str(fetched(django.get_version())))
    # Without the fixtures of our own tests, which are for the shop: its settings are not those of these tests.
    options = ["--ds=tests.helpers.site.settings.django_sessions", f"--confcutdir={HERE}"]
    return pytest.main([*options, *sys.argv[1:], str(HERE / "suite.py")])


if __name__ == "__main__":
    sys.exit(main())
