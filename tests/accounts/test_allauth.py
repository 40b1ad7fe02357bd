"""django-allauth beside us: its apps can't be added to a process that runs, so the site is one of its own."""

from pathlib import Path

import pytest

from testproject.servers import Server
from tests.helpers.running import drive


@pytest.mark.slow
def test_the_sessions_api_of_allauth_and_ours_end_the_same_sessions_and_ask_the_same(
    server: Server, tmp_path: Path
) -> None:
    drive("headless", settings="tests.helpers.site.settings.headless", server=server, folder=tmp_path)
