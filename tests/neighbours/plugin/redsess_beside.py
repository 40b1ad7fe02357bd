"""
The plugin for pytest that brings this package into the tests of another one.

It is loaded by ``-p``, before any conftest, and wraps ``django.setup``: that is what all suites call once their
settings are complete, whether these are a module or the arguments of ``settings.configure()``. No file of theirs is
changed. Passwords are hashed fast in all runs.

``REDSESS_BESIDE`` says what is used: ``theirs``, ``engine`` or ``middleware`` (engine and middleware), ``REDSESS_URL``
where the server is, and ``REDSESS_OUTCOMES`` to which file the outcomes go.
"""

import functools
import json
import os

import django
import pytest
from django.conf import settings

FAST_HASHER = "django.contrib.auth.hashers.MD5PasswordHasher"
DJANGOS_MIDDLEWARE = "django.contrib.sessions.middleware.SessionMiddleware"
BESIDE = os.environ["REDSESS_BESIDE"]

_setup = django.setup


@functools.wraps(_setup)
def setup(*args, **kwargs):
    # Most of the time of such tests goes into hashes of passwords.
    if FAST_HASHER not in settings.PASSWORD_HASHERS:
        settings.PASSWORD_HASHERS = [FAST_HASHER, *settings.PASSWORD_HASHERS]
    if BESIDE != "theirs" and "django_redsess" not in settings.INSTALLED_APPS:
        settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "django_redsess"]
        settings.SESSION_ENGINE = "django_redsess.backend"
        settings.SESSION_CACHE_ALIAS = "sessions"
        sessions = {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": os.environ["REDSESS_URL"]}
        settings.CACHES = {**settings.CACHES, "sessions": sessions}
    if BESIDE == "middleware":
        ours = {DJANGOS_MIDDLEWARE: "django_redsess.middleware.SessionMiddleware"}
        settings.MIDDLEWARE = [ours.get(name, name) for name in settings.MIDDLEWARE]
    _setup(*args, **kwargs)


django.setup = setup

# The worst comes last: a test has several reports, and is what the worst of them says.
_ORDER = ("passed", "skipped", "failed")
_outcomes = {}


def _note(report):
    known = _outcomes.get(report.nodeid, "passed")
    _outcomes[report.nodeid] = max(known, report.outcome, key=_ORDER.index)


def pytest_runtest_logreport(report):
    _note(report)


def pytest_collectreport(report):
    if report.failed:
        _note(report)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    if not hasattr(session.config, "workerinput"):
        with open(os.environ["REDSESS_OUTCOMES"], "w", encoding="utf-8") as file:
            json.dump({"django": django.get_version(), "outcomes": _outcomes}, file)
