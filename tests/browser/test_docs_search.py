"""What newcomers type into the search of the documentation finds the page that answers it, first of all."""

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

from tests.project.docs.pages import DOCS

pytestmark = pytest.mark.slow

QUESTIONS = {
    "install": "howto/install",
    "upgrade": "howto/upgrade",
    "does not work": "howto/troubleshooting",
    "connection refused": "howto/troubleshooting",
    "docker": "howto/troubleshooting",
    "redis cluster": "howto/cluster",
    "sentinel": "howto/sentinel",
    "force logout": "howto/accounts",
    "sign out user": "howto/accounts",
    "database sessions": "howto/moving",
    "limit sessions": "howto/devices",
    "timeout": "howto/timeouts",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the documentation, as ``make docs`` builds it."""
    if "REDSESS_SKIP_NOTHING" not in os.environ:
        pytest.importorskip("sphinx", reason="make docs installs it")
    folder: Path = tmp_path_factory.mktemp("docs")
    subprocess.run([sys.executable, "-m", "sphinx", "-q", str(DOCS), str(folder)], check=True)
    return folder


def test_the_first_hit_answers_what_newcomers_search_for(browser: Browser, site: Path) -> None:
    with browser.new_context() as context:
        page, found = context.new_page(), {}
        for question in QUESTIONS:
            page.goto(f"{site.as_uri()}/search.html?q={quote(question)}")
            page.locator("#search-results .search-summary", has_text="found").wait_for()
            hit = page.locator("#search-results ul.search li a").first.get_attribute("href") or ""
            found[question] = hit.partition(".html")[0]
    assert found == QUESTIONS
