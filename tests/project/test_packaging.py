import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "django_redsess"

SETTINGS = """
INSTALLED_APPS += ["django_redsess"]
SESSION_ENGINE = "django_redsess.backend"
SESSION_CACHE_ALIAS = "sessions"
CACHES = {{
    "default": {{"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}},
    "sessions": {{"BACKEND": "django_redis.cache.RedisCache", "LOCATION": "{url}"}},
}}
"""

SAVE_AND_LOAD = """
from pathlib import Path
import django_redsess
from django_redsess.backend import SessionStore
saved = SessionStore()
saved["basket"] = 3
saved.save()
print(Path(django_redsess.__file__).parent, SessionStore(saved.session_key)["basket"])
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], check=True, capture_output=True)
    return folder


def files_of(package: Path) -> set[str]:
    """Name the files below ``package``, without compiled Python."""
    return {
        path.relative_to(package).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_a_new_project_in_an_empty_environment_saves_and_loads_a_session(built, tmp_path, server) -> None:
    [wheel] = built.glob("*.whl")
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)

    def run(*command: str) -> str:
        # From another folder and without PYTHONPATH, so that what was installed is imported, and not the sources.
        command = (environment / "bin" / "python", *command)
        ran = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path, env={"PATH": ""})
        return ran.stdout

    run("-m", "pip", "install", "--quiet", str(wheel))
    run("-m", "django", "startproject", "trial", ".")
    with (tmp_path / "trial" / "settings.py").open("a") as settings:
        settings.write(SETTINGS.format(url=server.url))
    run("manage.py", "check")
    run("manage.py", "migrate")
    installed, basket = run("manage.py", "shell", "--no-imports", "--command", SAVE_AND_LOAD).split()
    assert environment in Path(installed).parents
    assert basket == "3"
    assert files_of(Path(installed)) == files_of(PACKAGE)


def test_the_sdist_has_all_that_its_tests_import_and_no_results(built: Path, tmp_path: Path) -> None:
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        packed.extractall(tmp_path, filter="data")
    [unpacked] = tmp_path.iterdir()
    assert not (unpacked / "benchmarks" / "results").exists()
    assert files_of(unpacked / "tests") == files_of(ROOT / "tests")
    collect = [sys.executable, "-m", "pytest", "-qq", "-p", "no:cacheprovider", "--collect-only"]
    subprocess.run(collect, check=True, capture_output=True, cwd=unpacked)


def test_links_and_pictures_of_the_readme_are_absolute_on_a_package_index(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        [name] = [name for name in packed.namelist() if name.endswith("/METADATA")]
        metadata = packed.read(name).decode()
    places = re.findall(r"(?:image:: |`[^`<]+ <)(\S+?)>?(?:`_|$)", metadata, re.MULTILINE)
    assert len(places) > 5
    assert [place for place in places if not place.startswith("https://")] == []
