"""The page of limitations: each names a test that shows it, or says that it is a policy."""

import re

import pytest

from tests.project.docs.pages import DOCS, is_test, named_tests

pytestmark = pytest.mark.unit


def test_each_limitation_has_a_test_that_exists_or_is_a_policy() -> None:
    text = (DOCS / "explanation" / "limitations.rst").read_text(encoding="utf-8")
    limitations = re.findall(r"^- (.+\n(?: .*\n|\n)*)", text, re.MULTILINE)
    assert len(limitations) >= 6
    for each in limitations:
        named = named_tests(each)
        assert len(re.findall(r"^  Policy: \w", each, re.MULTILINE)) == (0 if named else 1), each
        assert [name for name in named if not is_test(name)] == []
