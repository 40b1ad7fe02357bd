"""
How many files of the package a request passes: who follows one by hand has to open each.

A file is passed if a function of it is called. What a process does once has been done before.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

import django_redsess
from django_redsess import conf as configuration
from tests.helpers.admin_pages import CONFIRM, END, LIST, Page
from tests.helpers.site import AUTH, SESSION
from tests.helpers.store import pool

PACKAGE = Path(django_redsess.__file__).parent


def passed_by(request: Callable[[], Any]) -> set[str]:
    """Return the files of the package that have a function which ``request`` calls."""
    files = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        request()
    finally:
        sys.setprofile(None)
    return {str(Path(each).relative_to(PACKAGE)) for each in files if Path(each).is_relative_to(PACKAGE)}


@pytest.fixture
def site(settings, monkeypatch) -> None:
    # Once the module ``testing`` is imported, it is asked for each prefix.
    monkeypatch.setattr(configuration, "prefix_of_test", None)
    configuration.conf.clear_cached()
    # A test before may have left an outage: then each request looks whether it is over.
    pool().outages.finish("are reached again")
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    settings.MIDDLEWARE = [SESSION, AUTH, "django.contrib.messages.middleware.MessageMiddleware"]


@pytest.fixture
def visitor(site, db) -> Client:
    """A user who has signed in, and whose requests have read and written before."""
    browser = Client()
    browser.force_login(User.objects.create_user("alice"))
    for path in ("/read/colour/", "/write/colour/red/", "/read/colour/"):
        browser.get(path)
    return browser


@pytest.fixture
def administrator(site, db) -> Client:
    browser = Client()
    browser.force_login(User.objects.create_superuser("root"))
    browser.get(LIST)
    return browser


def at_most(limit: int, files: set[str]) -> None:
    assert len(files) <= limit, f"{len(files)} files:\n" + "\n".join(sorted(files))


def test_a_load(visitor) -> None:
    at_most(12, passed_by(lambda: visitor.get("/read/colour/")))


def test_a_save(visitor) -> None:
    at_most(16, passed_by(lambda: visitor.get("/write/colour/blue/")))


def test_a_sign_in(visitor) -> None:
    browser = Client()
    assert browser.get("/write/colour/blue/").status_code == 200
    at_most(22, passed_by(lambda: browser.get("/sign-in/alice/")))


def test_the_list(administrator) -> None:
    at_most(29, passed_by(lambda: administrator.get(LIST)))


def test_an_end(visitor, administrator) -> None:
    def end() -> None:
        administrator.post(END, question.fields)

    # The first of two loads the script.
    for _ in range(2):
        visitor.force_login(User.objects.get(username="alice"))
        sid = next(row["sid"] for row in Page(administrator.get(LIST)).rows if row["user"] == "alice")
        question = Page(administrator.get(CONFIRM, {"sid": sid}))
        files = passed_by(end)
    assert visitor.get("/user-id/").content == b"nobody"
    at_most(32, files)
