"""The table of versions has what the project promises, and the page promises nothing that the table lacks."""

import re
import tomllib
from datetime import date
from typing import Any

import pytest

from docs._ext import facts
from tests.helpers import where_it_runs
from tests.project.docs.pages import DOCS

ROOT = DOCS.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PAGE = (DOCS / "reference" / "where-it-runs.rst").read_text(encoding="utf-8")

NOT_RUN: set[tuple[str, str]] = set()
"""What the tests are to run with, and what the table lacks so far. The page says so."""


def release(version: str) -> str:
    """Return the first two numbers of ``version``."""
    return ".".join(version.split(".")[:2])


def releases(name: str) -> set[str]:
    """Return the releases of a package, of Python, or of a kind of server or database, that a run has passed with."""
    kinds = {
        each.split(" ")[1]
        for run in facts.runs()
        for each in [*run["servers"], *run["databases"]]
        if each.split(" ")[0] == name
    }
    return {release(each) for each in kinds} or {release(run[name]) for run in facts.runs() if run.get(name)}


@pytest.mark.unit
@pytest.mark.parametrize(
    ("name", "beginning"), [("Python", "Programming Language :: Python :: 3."), ("Django", "Framework :: Django :: ")]
)
def test_the_classifiers_are_the_releases_of_the_table(name: str, beginning: str) -> None:
    listed = [each for each in PROJECT["project"]["classifiers"] if each.startswith(beginning)]
    missing = {number for of, number in NOT_RUN if of == name}
    assert {each.rpartition(" ")[2] for each in listed} - missing == releases(name)


@pytest.mark.unit
def test_the_oldest_that_can_be_installed_are_in_the_table() -> None:
    names = {"Django": "Django", "django-redis": "django-redis", "redis": "redis-py"}
    bounds = dict(each.split(">=") for each in PROJECT["project"]["dependencies"])
    assert set(bounds) == set(names)
    for package, oldest in bounds.items():
        assert oldest in releases(names[package]), package
    assert PROJECT["project"]["requires-python"].removeprefix(">=") in releases("Python")


@pytest.mark.unit
def test_each_environment_of_the_matrix_is_in_the_table() -> None:
    runs = [(release(run["Python"]), release(run["Django"])) for run in facts.runs()]
    pairs = [re.fullmatch(r"py3(\d+)-django(\d)(\d)", name) for name in PROJECT["tool"]["tox"]["env_list"]]
    named = [(f"3.{found[1]}", f"{found[2]}.{found[3]}") for found in pairs if found]
    for python, django in named:
        is_missing = bool({("Python", python), ("Django", django)} & NOT_RUN)
        assert ((python, django) in runs) != is_missing, (python, django)


@pytest.mark.unit
def test_redis_py_was_run_with_hiredis_and_without_in_its_oldest_and_its_newest_release() -> None:
    ran = {(release(run["redis-py"]), run["hiredis"] is not None) for run in facts.runs()}
    of_redis_py = sorted(releases("redis-py"), key=lambda text: [int(part) for part in text.split(".")])
    assert {(which, has) for which in (of_redis_py[0], of_redis_py[-1]) for has in (True, False)} <= ran


@pytest.mark.unit
@pytest.mark.parametrize("page", ["howto/install.rst", "howto/server.rst"])
def test_servers_that_the_guides_promise_are_in_the_table(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    for name in ("Redis", "Valkey"):
        # As in "Redis 7.0 and 8.0, and on Valkey 8.1".
        promised = {
            number
            for listed in re.findall(rf"\b{name} ((?:\d[\d.]*\d(?: and |, )?)+|\d)", text)
            for number in re.findall(r"\d+(?:\.\d+)?", listed)
        }
        assert promised
        for number in promised:
            assert any(each == number or each.startswith(f"{number}.") for each in releases(name)), (name, number)


@pytest.mark.unit
def test_each_database_of_the_history_is_in_the_table() -> None:
    for name in ("SQLite", "PostgreSQL", "MariaDB"):
        assert releases(name), name


@pytest.mark.unit
def test_the_page_names_no_version_that_the_table_lacks() -> None:
    for name, number in re.findall(r"\b(\w+(?:-\w+)?) (\d+(?:\.\d+)+)", PAGE):
        assert release(number) in releases(name) or (name, number) in NOT_RUN, (name, number)
    # Once it was run, the page has to say so.
    for name, number in NOT_RUN:
        assert f"{name} {number}" in PAGE
        assert number not in releases(name)


@pytest.mark.unit
def test_each_run_is_complete() -> None:
    for run in facts.runs():
        assert run["passed"] > 0
        assert date.fromisoformat(run["date"]) >= date(2026, 1, 1)
        assert run["servers"]


@pytest.mark.unit
def test_lines_are_found_in_a_log_once_and_in_order() -> None:
    old = where_it_runs.line({"Redis 7.0.15": 2}, {}, 2).replace('"Python": "', '"Python": "2.')
    new = where_it_runs.line({"Valkey 9.1.2": 3, "Redis 8.0.0": 1}, {"SQLite 3.40.1": 2}, 4)
    runs = where_it_runs.runs_in(f"5 passed in 3.21s\nredis-8.0: {new}\n{old}\n5 passed\n{new}\n")
    assert [run["passed"] for run in runs] == [2, 4]
    assert runs[1]["servers"] == {"Redis 8.0.0": 1, "Valkey 9.1.2": 3}
