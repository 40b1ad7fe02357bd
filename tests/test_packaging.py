import gettext
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.no_server

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "django_redsess"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], check=True, capture_output=True)
    return folder


@pytest.mark.slow
def test_sdist_and_wheel_install_into_an_empty_environment_with_all_their_files(built: Path, tmp_path: Path) -> None:
    wanted = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*")
        if path.suffix in {".py", ".lua", ".html", ".mo", ".typed"}
    }
    assert {"lua/session/save.lua", "lua/lib/partition.lua", "locale/de/LC_MESSAGES/django.mo", "py.typed"} <= wanted
    for pattern in ("*.tar.gz", "*.whl"):
        [distribution] = built.glob(pattern)
        environment = tmp_path / pattern.strip("*.")
        venv.create(environment, with_pip=True)
        python = environment / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", str(distribution)], check=True)
        # From another folder, so that not the sources are imported but what was installed.
        where = "import django_redsess.backend, pathlib; print(pathlib.Path(django_redsess.__file__).parent)"
        found = subprocess.run(
            [python, "-c", where], check=True, capture_output=True, text=True, cwd=tmp_path, env={"PATH": ""}
        )
        installed = Path(found.stdout.strip())
        assert environment in installed.parents
        assert {path.relative_to(installed).as_posix() for path in installed.rglob("*")} >= wanted


def test_every_text_of_a_translation_is_compiled() -> None:
    for source in PACKAGE.glob("locale/*/LC_MESSAGES/django.po"):
        with source.with_suffix(".mo").open("rb") as compiled:
            known = gettext.GNUTranslations(compiled)._catalog
        texts = re.findall(r'^msgid "(.+)"$', source.read_text(encoding="utf-8"), re.MULTILINE)
        assert texts
        assert [text for text in texts if text not in known and (text, 0) not in known] == []
