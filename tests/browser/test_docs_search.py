"""What newcomers type into the search of the documentation finds the page that answers it, first of all."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

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
    "GDPR": "howto/gdpr",
    "delete account": "howto/gdpr",
    "privacy policy": "howto/gdpr",
    "data retention": "howto/gdpr",
    "uninstall": "howto/leaving",
    "Celery": "howto/celery",
    "Heroku": "howto/managed",
    "AWS ElastiCache": "howto/managed",
    "Azure": "howto/managed",
    "Upstash": "howto/managed",
    "429": "howto/troubleshooting",
    "rate limit": "howto/troubleshooting",
    "docker compose": "howto/troubleshooting",
    "troubleshooting": "howto/troubleshooting",
    "OOM": "howto/troubleshooting",
    "memory per session": "reference/redis",
    "migrate from database sessions": "howto/moving",
    "cached_db": "howto/moving",
    "who is online": "howto/admin",
    "online users count": "howto/admin",
    "export CSV": "howto/admin",
    "end session": "howto/ending",
    "deactivate user": "howto/ending",
    "django-unfold": "howto/admin-pages",
    "custom columns": "howto/admin-pages",
    "idle timeout 30 minutes": "howto/timeouts",
    "remember me": "howto/timeouts",
    "SESSION_COOKIE_AGE": "howto/timeouts",
    "last seen": "howto/timeouts",
    "single session per user": "howto/devices",
    "concurrent sessions": "howto/devices",
    "log out everywhere": "howto/accounts",
    "DBSC": "howto/device-bound",
    "device bound session credentials": "howto/device-bound",
    "cookie theft": "howto/device-bound",
    "infostealer": "howto/device-bound",
    "ban user": "howto/blocking",
    "multi-tenancy": "howto/tenants",
    "impersonation": "howto/signing-in-as",
    "UUID primary key": "howto/custom-users",
    "2FA": "howto/allauth",
    "kubernetes": "howto/deploying",
    "failover": "howto/sentinel",
    "websocket": "howto/sockets",
    "async": "howto/async",
    "DRF": "howto/drf",
    "REST API": "howto/json",
    "API token": "howto/api-tokens",
    "pytest": "howto/testing",
    "maxmemory-policy": "howto/server",
    "backup": "howto/server",
    "TLS": "howto/server",
    "ACL": "howto/acl",
    "IP address": "howto/proxies",
    "load balancer": "howto/proxies",
    "encryption": "howto/encryption",
    "clearsessions": "howto/cleaning",
    "health check": "howto/metrics",
    "Sentry": "howto/traces",
    "login history": "howto/who-was-here",
    "security notification mail": "howto/new-devices",
    "recently viewed": "howto/viewed-items",
    "session hijacking": "explanation/security",
    "performance": "explanation/figures",
    "vs django-redis": "explanation/figures",
    "race condition": "explanation/overlapping",
    "eviction": "explanation/eviction",
    "outage": "explanation/outages",
    "million users": "explanation/scale",
    "audit": "explanation/asvs",
    "limitations": "explanation/limitations",
    "breaking changes": "explanation/versions",
    "deprecation": "explanation/versions",
    "settings": "reference/settings",
    "commands": "reference/commands",
    "getting started": "tutorial",
    "SECRET_KEY": "howto/secret-key",
    "redis password": "howto/server",
    "several sites on one Redis": "howto/server",
    "samesite": "explanation/security",
    "tor": "howto/networks",
    "list of networks": "howto/networks",
    "connection pool": "howto/server",
    "users get logged out randomly": "howto/troubleshooting",
    "logged out after deploy": "howto/troubleshooting",
    "SESSION_SAVE_EVERY_REQUEST": "reference/settings",
    "get session by user": "howto/from-session-objects",
    "django admin sessions": "howto/admin",
    "delete all sessions": "howto/accounts",
    "redis down": "explanation/outages",
    "fallback to database": "explanation/outages",
    "systemd": "howto/deploying",
    "cron": "howto/cleaning",
    "channels": "howto/sockets",
    "anonymous users": "explanation/eviction",
    "geoip": "howto/places",
    "German": "howto/languages",
    "prometheus": "howto/metrics",
    "TTL": "reference/redis",
    "python 3.14": "howto/install",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the documentation, as ``make docs`` builds it."""
    if "REDSESS_SKIP_NOTHING" not in os.environ:
        pytest.importorskip("sphinx", reason="make docs installs it")
    folder: Path = tmp_path_factory.mktemp("docs")
    subprocess.run([sys.executable, "-m", "sphinx", "-q", str(DOCS), str(folder)], check=True)
    return folder


@pytest.fixture
def found_pages(browser: Browser, site: Path) -> Iterator[Callable[[str], list[str]]]:
    """Return a function that searches, and returns the names of the pages that are found, the best first."""
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{site.as_uri()}/search.html?q=tor")
        shown = listed(page)
        # What the page does for the words in its address. Loading it for each search would take minutes.
        found = "query => Search._performSearch(...Search._parseQuery(query)).reverse().map(([page]) => page)"
        assert shown == page.evaluate(found, "tor") != []
        yield lambda question: page.evaluate(found, question)


def listed(page: Page) -> list[str]:
    page.locator("#search-results .search-summary", has_text="found").wait_for()
    hrefs = "links => links.map(link => link.getAttribute('href'))"
    links = page.locator("#search-results ul.search > li > a").evaluate_all(hrefs)
    return [link.partition(".html")[0] for link in links]


def test_the_first_hit_answers_what_newcomers_search_for_and_each_page_is_listed_once(found_pages) -> None:
    found = {question: found_pages(question) for question in QUESTIONS}
    assert {question: (pages or [""])[0] for question, pages in found.items()} == QUESTIONS
    assert [question for question, pages in found.items() if len(set(pages)) < len(pages)] == []


def test_a_word_is_not_found_within_other_words(found_pages) -> None:
    with_tor = {page for page in found_pages("tor") if not re.search(r"\btor\b", text_of(page), re.IGNORECASE)}
    assert with_tor == set()
    assert found_pages("oubleshoot") == found_pages("etheus") == []
    # A beginning of a word finds it, and so does a part of a name.
    assert "howto/metrics" in found_pages("prometh")
    assert "reference/settings" in found_pages("save_every_request")
    assert found_pages("samesite")[0] == "explanation/security"


def text_of(page: str) -> str:
    return (DOCS / f"{page}.rst").read_text(encoding="utf-8")
