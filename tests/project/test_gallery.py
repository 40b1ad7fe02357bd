"""The table of the gallery. The pictures themselves are for people."""

from collections import Counter

import pytest

from tests.helpers.gallery.pages import PAGES, SITES, tasks
from tests.helpers.gallery.pictures import file_of, page_of

pytestmark = pytest.mark.unit


def test_each_page_is_seen_and_each_picture_has_a_name_of_its_own() -> None:
    pages: dict[str, str] = {}
    files = Counter[str]()
    for site in SITES:
        for task in tasks(site):
            file = file_of(task.name, site, task.look, 390)
            files[file] += 1
            pages[file] = task.name
    assert max(files.values()) == 1
    assert {file: page_of(file) for file in files} == pages
    assert set(pages.values()) == set(PAGES)


def test_words_choose_pages_by_their_beginning_and_whole_sites() -> None:
    assert {task.name for task in tasks("", ["admin-time"])} == {"admin-time-day", "admin-time-week"}
    assert tasks("unfold", ["own"]) == []
    assert tasks("unfold", ["unfold"]) == tasks("unfold")
