"""The page that answers OWASP ASVS 5.0.0, chapter V7: all requirements, and a test for each that is said to be met."""

import re

import pytest

from django_redsess.conf import PROFILES
from tests.project.docs.pages import DOCS, is_test, named_tests

pytestmark = pytest.mark.unit

PAGE = DOCS / "explanation" / "asvs.rst"

# As in the release 5.0.0: the requirements of each section, by their levels.
LEVELS = {"7.1": "222", "7.2": "1111", "7.3": "22", "7.4": "11222", "7.5": "223", "7.6": "22"}

TERM = re.compile(r"^(7\.\d\.\d) \(level (\d)\): \S.*\n((?: .*\n|\n)+)", re.MULTILINE)


def answers() -> list[tuple[str, str, str]]:
    """Return number, level and answer of each requirement."""
    return TERM.findall(PAGE.read_text(encoding="utf-8") + "\n")


def test_each_requirement_is_answered_once_with_its_level() -> None:
    asked = [(f"{section}.{at}", level) for section, levels in LEVELS.items() for at, level in enumerate(levels, 1)]
    assert [(number, level) for number, level, _ in answers()] == asked
    assert len(asked) == 19


def test_whatever_is_said_to_be_met_names_its_tests_and_they_exist() -> None:
    for number, _, text in answers():
        [status] = re.findall(r"\A    \*\*(Met|Met with strict|Met in part|Yours)\b\.?\*\*", text)
        named = named_tests(text)
        assert bool(named) == (status != "Yours"), number
        assert [name for name in named if not is_test(name)] == [], number


def test_the_page_has_the_values_of_the_profile() -> None:
    text = PAGE.read_text(encoding="utf-8")
    [[minutes], [hours], [sessions], [policy]] = (
        re.findall(pattern, text)
        for pattern in (
            r"``IDLE_TIMEOUT``: (\d+) minutes\n",
            r"``ABSOLUTE_TIMEOUT``: (\d+) hours\n",
            r"``MAX_SESSIONS_PER_USER``: (\d+), and",
            r"``SESSION_LIMIT_POLICY``: ``(\w+)``\n",
        )
    )
    [switches] = re.findall(r"^((?:``\w+``, )+``\w+``): True$", text, re.MULTILINE)
    assert PROFILES["strict"] == {
        "IDLE_TIMEOUT": int(minutes) * 60,
        "ABSOLUTE_TIMEOUT": int(hours) * 3600,
        "MAX_SESSIONS_PER_USER": int(sessions),
        "SESSION_LIMIT_POLICY": policy,
        **dict.fromkeys(re.findall(r"\w+", switches), True),
    }
