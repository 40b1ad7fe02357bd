import re
import shlex
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import readme_renderer.rst
import requests

from testproject.servers import Server, free_port
from tests.helpers.running import wait_until
from tests.project.docs.pages import blocks, typed

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "django_redsess"
README = ROOT / "README.rst"

SAVE_AND_LOAD = """
from pathlib import Path
import django_redsess
from django_redsess.backend import SessionStore
saved = SessionStore()
saved["basket"] = 3
saved.save()
print(Path(django_redsess.__file__).parent, SessionStore(saved.session_key)["basket"])
"""


THE_USER = """
from django.contrib.auth.models import User
user = User.objects.get()
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


def quick_start() -> tuple[str, str, list[str]]:
    """Return what the README says to type and to set: ``pip install`` with its arguments, settings, and commands."""
    [install] = [
        command for command, _ in typed(blocks(README)) if "install" in command and "django-redsess" in command
    ]
    section = re.search(
        r"^Add it to your project\n=+\n(.*?)\n\n[^\n]+\n=+\n", README.read_text(), re.DOTALL | re.MULTILINE
    )
    assert section
    [settings] = [block.text for block in blocks(README) if "INSTALLED_APPS" in block.text]
    return install, settings, re.findall(r"``(manage\.py \w+)``", section[1])


def sign_in(address: str) -> requests.Session:
    """Sign in at the admin, as somebody with Firefox would."""
    browser = requests.Session()
    browser.trust_env = False
    browser.headers["User-Agent"] = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
    browser.get(f"{address}/admin/login/", timeout=20)
    form = {"username": "ada", "password": "correct-horse", "csrfmiddlewaretoken": browser.cookies["csrftoken"]}
    page = browser.post(f"{address}/admin/login/", {**form, "next": "/admin/"}, timeout=20)
    assert page.url == f"{address}/admin/"
    return browser


@contextmanager
def served(environment: Path, folder: Path, variables: dict[str, str]) -> Iterator[str]:
    """Serve a project by ``runserver``; the value is its address."""
    port = free_port()
    command = [environment / "bin" / "python", "manage.py", "runserver", "--noreload", f"127.0.0.1:{port}"]
    with (folder / "log").open("wb") as log:
        site = subprocess.Popen(command, cwd=folder, env=variables, stdout=log, stderr=log)
    try:
        wait_until(lambda: "Quit the server" in (folder / "log").read_text(), seconds=60)
        yield f"http://127.0.0.1:{port}"
    finally:
        site.kill()
        site.wait()


def test_a_new_project_follows_the_readme_and_works_without_the_package_again(
    built: Path, tmp_path: Path, server: Server
) -> None:
    [wheel] = built.glob("*.whl")
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=True)
    # From another folder and without PYTHONPATH, so that what was installed is imported, and not the sources.
    variables = {
        "PATH": str(environment / "bin"),
        "DJANGO_SUPERUSER_PASSWORD": "correct-horse",
        "PYTHONUNBUFFERED": "1",
    }

    def run(*command: str) -> str:
        ran = subprocess.run(
            [environment / "bin" / "python", *command], capture_output=True, text=True, cwd=tmp_path, env=variables
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    install, settings, commands = quick_start()
    # The source alone is another one: the wheel.
    arguments = re.sub(r"(django-redsess\[\w+\])( @ [^\"\s]+)?", rf"\1 @ {wheel.as_uri()}", install)
    assert wheel.name in arguments
    run(*shlex.split(arguments.removeprefix("python ")), "--quiet")
    run("-m", "django", "startproject", "trial", ".")
    address = "redis://127.0.0.1:6379/1"
    assert address in settings
    file = tmp_path / "trial" / "settings.py"
    without = file.read_text()
    file.write_text(without + settings.replace(address, server.url))
    assert {"manage.py migrate", "manage.py check"} <= set(commands)
    said = {command: run(*command.split()) for command in commands}
    assert "no issues" in said["manage.py check"]
    installed, basket = run("manage.py", "shell", "--no-imports", "--command", SAVE_AND_LOAD).split()
    assert environment in Path(installed).parents
    assert basket == "3"
    assert files_of(Path(installed)) == files_of(PACKAGE)
    run("manage.py", "createsuperuser", "--noinput", "--username", "ada", "--email", "ada@example.org")
    with served(environment, tmp_path, variables) as site:
        browser = sign_in(site)
        page = browser.get(f"{site}/admin/django_redsess/onlinesession/", timeout=20)
        [code] = [block.text for block in blocks(README) if "online.end_user(user)" in block.text]
        run("manage.py", "shell", "--no-imports", "--command", f"{THE_USER}{code}")
        assert browser.get(f"{site}/admin/", timeout=20).url == f"{site}/admin/login/?next=/admin/"
    assert page.status_code == 200
    assert ">ada<" in page.text
    # What the extra `browsers` is for.
    assert "Firefox 145 on Linux" in page.text
    file.write_text(without)
    run("-m", "pip", "uninstall", "--yes", "--quiet", "django-redsess")
    assert not Path(installed).exists()
    assert "no issues" in run("manage.py", "check")
    with served(environment, tmp_path, variables) as site:
        sign_in(site)


def test_the_sdist_has_all_that_its_tests_import_and_no_results(built: Path, tmp_path: Path) -> None:
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        packed.extractall(tmp_path, filter="data")
    [unpacked] = tmp_path.iterdir()
    assert not (unpacked / "benchmarks" / "results").exists()
    assert files_of(unpacked / "tests") == files_of(ROOT / "tests")
    collect = [sys.executable, "-m", "pytest", "-qq", "-p", "no:cacheprovider", "--collect-only"]
    subprocess.run(collect, check=True, capture_output=True, cwd=unpacked)


def test_indexes_and_tools_of_2024_know_the_version_of_the_metadata(built: Path) -> None:
    [sdist], [wheel] = built.glob("*.tar.gz"), built.glob("*.whl")
    with tarfile.open(sdist) as packed:
        [name] = [name for name in packed.getnames() if name.endswith("/PKG-INFO")]
        of_sdist = packed.extractfile(name).read().decode()  # type: ignore[union-attr]
    with zipfile.ZipFile(wheel) as packed_wheel:
        [name] = [name for name in packed_wheel.namelist() if name.endswith("/METADATA")]
        assert packed_wheel.read(name).decode() == of_sdist
    assert of_sdist.startswith("Metadata-Version: 2.4\n")


def test_links_and_pictures_of_the_readme_lead_somewhere_on_a_package_index(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        [name] = [name for name in packed.namelist() if name.endswith("/METADATA")]
        shown = readme_renderer.rst.render(packed.read(name).decode().partition("\n\n")[2])
    assert shown is not None
    places = re.findall(r'(?:src|href)="([^"]+)"', shown)
    assert len(places) > 20
    assert [place for place in places if not place.startswith(("https://", "http://127.0.0.1", "#"))] == []
    pictures = re.findall(r'src="https://raw\.githubusercontent\.com/[\w-]+/[\w-]+/main/([^"]+)"', shown)
    assert [path for path in pictures if not (ROOT / path).is_file()] == []
    assert len(pictures) == shown.count("<img ") > 2
