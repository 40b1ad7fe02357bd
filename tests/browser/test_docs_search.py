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
