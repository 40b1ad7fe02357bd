"""The page "Works with", the results that it shows, and the packages that are run agree."""

import pytest

from docs._ext import facts
from tests.neighbours import results
from tests.neighbours.packages import Package, packages
from tests.project.docs.pages import DOCS

pytestmark = pytest.mark.unit

PACKAGES = {package.name: package for package in packages()}


def test_each_package_has_a_result_and_each_result_a_package() -> None:
    assert sorted(results.read()) == sorted(PACKAGES)
    assert [each.name for each in facts.neighbours()] == sorted(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES.values(), ids=list(PACKAGES))
def test_a_result_is_of_what_was_run(package: Package) -> None:
    result = results.read()[package.name]
    # A package whose tests were not run has a reason, and no numbers.
    assert bool(result.get("not_run")) != bool(result.get("passed"))
    assert result.get("not_run") == package.not_run or not package.not_run


def test_each_difference_has_the_reason_that_explains_it() -> None:
    for package in PACKAGES.values():
        for difference in results.read()[package.name].get("differences", []):
            assert difference["reason"], difference["test"]
            assert difference["reason"] == package.explanation(difference["test"])


def test_the_page_is_found_by_the_name_of_each_package() -> None:
    [keywords, *_] = (DOCS / "reference" / "works-with.rst").read_text(encoding="utf-8").partition("=====")
    text = " ".join(keywords.split()).removeprefix(".. meta:: :keywords:").lower()
    assert set(PACKAGES) <= {phrase.strip() for phrase in text.split(",")}
