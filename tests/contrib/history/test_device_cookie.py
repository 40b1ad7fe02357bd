"""The cookie of a device: whose it is, who may make one, and how long it is read."""

import threading
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import AsyncClient, Client

from django_redsess import middleware
from django_redsess.conf import conf
from django_redsess.contrib.history import devices
from django_redsess.contrib.history.checks import check_device_cookie
from django_redsess.contrib.history.models import SignIn
from tests.helpers.checks import found
from tests.helpers.running import run_python
from tests.helpers.visitors import Browser, cookie_header

pytestmark = pytest.mark.usefixtures("history")

DEVICE = "sessionid_device"
ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def people(db) -> None:
    for name in ("alice", "bob"):
        User.objects.create_user(name, f"{name}@shop.example", "secret")


def sign_in(browser: Client, name: str = "alice", path: str = "/login/") -> bool:
    """Sign in, and tell whether the device was new to the user."""
    # Login times are milliseconds.
    threading.Event().wait(0.002)
    browser.post("/logout/")
    assert browser.post(path, {"username": name, "password": "secret"}).status_code == 302
    row = SignIn.objects.filter(user__username=name).latest("login_ms")
    return row.is_new_device


def value_in(browser: Client) -> str:
    return str(browser.cookies[DEVICE].value)


def with_cookie(value: str) -> Client:
    browser = Client()
    browser.cookies[DEVICE] = value
    return browser


def test_it_has_the_attributes_of_the_sessions_cookie_and_no_script_reads_it(settings) -> None:
    settings.SESSION_COOKIE_SAMESITE, settings.SESSION_COOKIE_SECURE = "None", True
    settings.SESSION_COOKIE_PATH, settings.SESSION_COOKIE_DOMAIN = "/shop", "shop.example"
    settings.SESSION_COOKIE_HTTPONLY = False
    browser = Client()
    sign_in(browser)
    ours, theirs = browser.cookies[DEVICE], browser.cookies["sessionid"]
    assert [ours[name] for name in ("domain", "path", "secure", "samesite")] == ["shop.example", "/shop", True, "None"]
    assert [theirs[name] == ours[name] for name in ("domain", "path", "secure", "samesite")] == [True] * 4
    assert (ours["httponly"], ours["max-age"]) == (True, 400 * 24 * 3600)
    assert SignIn.objects.get().device_cookie not in ours.value


def test_two_sites_on_one_host_leave_one_another_theirs(settings) -> None:
    browser = Client()
    sign_in(browser)
    first = value_in(browser)
    settings.SESSION_COOKIE_NAME = "shop"
    sign_in(browser)
    assert (value_in(browser), "shop_device" in browser.cookies) == (first, True)
    settings.REDSESS = {**settings.REDSESS, "HISTORY_DEVICE_COOKIE": "known"}
    sign_in(browser)
    assert "known" in browser.cookies


def test_only_a_sign_in_brings_it() -> None:
    browser = Client()
    sign_in(browser)
    assert DEVICE not in browser.get("/").cookies


def test_people_who_share_a_browser_are_known_there_each() -> None:
    alone, shared = Client(), Client()
    for name in ("alice", "bob"):
        assert not sign_in(alone, name)
        assert sign_in(shared, name)
    for name in ("alice", "bob", "bob", "alice"):
        assert not sign_in(shared, name)
    assert SignIn.objects.values("device_cookie").distinct().count() == 4


def test_a_planted_cookie_is_no_device_of_the_user() -> None:
    own, of_mallory = Client(), Client()
    sign_in(own)
    sign_in(of_mallory, "bob")
    planted = value_in(of_mallory)
    # Somebody else's subdomain has overwritten alice's cookie before she signs in.
    victim = with_cookie(planted)
    sign_in(victim)
    assert sign_in(with_cookie(planted))
    assert sign_in(with_cookie(planted.split(".")[0]))
    # By then, the victim's browser is known by another name.
    assert not sign_in(victim)


def test_an_entry_of_another_site_with_this_secret_key_is_no_device(settings) -> None:
    browser = Client()
    sign_in(browser)
    value = value_in(browser)
    settings.SESSION_COOKIE_NAME = "shop"
    browser = Client()
    browser.cookies["shop_device"] = value
    assert sign_in(browser)


def test_an_entry_of_another_table_of_users_is_no_device(settings) -> None:
    browser = Client()
    sign_in(browser)
    settings.REDSESS = {**settings.REDSESS, "PREFIX": lambda prefix=conf.PREFIX: prefix}
    assert sign_in(browser)
    assert not sign_in(browser)


@pytest.mark.parametrize(
    "value",
    [
        *("", "x", ".", "..", ":", f"{'a' * 22}:{'b' * 43}", f"{'a' * 22}:{'b' * 42}", "é" * 70, '"\\303\\251"'),
        *(".".join([f"{'a' * 22}:{'b' * 43}"] * 50), "a" * 5000, f"{'a' * 22}:{'b' * 43}\n"),
    ],
)
def test_whatever_is_in_the_cookie_a_sign_in_works_and_gets_a_name_of_its_own(value: str) -> None:
    sign_in(Client())
    browser = Client(headers={"cookie": cookie_header(DEVICE, value)})
    assert sign_in(browser)
    # From here on, it sends what it was given.
    del browser.defaults["HTTP_COOKIE"]
    entries = value_in(browser).split(".")
    assert len(entries) <= devices.ENTRIES_MAX
    assert all(devices.ENTRY.fullmatch(entry) for entry in entries)
    assert entries[0] not in value
    assert not sign_in(browser)


def test_of_many_users_the_last_five_are_known() -> None:
    browser, alone = Client(), Client()
    names = [f"user {number}" for number in range(devices.ENTRIES_MAX + 1)]
    for name in names:
        User.objects.create_user(name, password="secret")
        sign_in(alone, name)
        alone.cookies.clear()
        assert sign_in(browser, name)
    assert len(value_in(browser).split(".")) == devices.ENTRIES_MAX
    for name in names[1:]:
        assert not sign_in(browser, name)
    assert sign_in(browser, names[0])


def test_an_entry_of_its_own_is_not_there_twice() -> None:
    browser = Client()
    for _ in range(3):
        sign_in(browser)
    [entry] = value_in(browser).split(".")
    copies = with_cookie(f"{entry}.{entry}")
    assert not sign_in(copies)
    assert value_in(copies) == entry


# A new SECRET_KEY.


@pytest.fixture
def signs_anew(monkeypatch) -> None:
    """As on a site that has had a fallback when it started."""
    monkeypatch.setattr(middleware, "response_hooks", [devices.sign_anew])


def replace_key(settings) -> None:
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = f"new {settings.SECRET_KEY}"


@pytest.mark.usefixtures("signs_anew")
@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_a_visit_signs_it_with_the_new_key(settings, client: type) -> None:
    browser = Browser(client())
    browser.post("/login/", {"username": "alice", "password": "secret"})
    first = browser.client.cookies[DEVICE].value
    replace_key(settings)
    browser.get("/account/sessions/")
    second = browser.client.cookies[DEVICE].value
    assert (second == first, second.split(":")[0] == first.split(":")[0]) == (False, True)
    browser.get("/account/sessions/")
    assert browser.client.cookies[DEVICE].value == second
    # Weeks later.
    settings.SECRET_KEY_FALLBACKS = []
    assert not sign_in(with_cookie(second))
    assert sign_in(with_cookie(first))


@pytest.mark.usefixtures("signs_anew")
def test_a_sign_in_signs_it_with_the_new_key_and_leaves_the_others_theirs(settings) -> None:
    browser = Client()
    for name in ("alice", "bob"):
        sign_in(browser, name)
    [_, of_alice] = value_in(browser).split(".")
    replace_key(settings)
    sign_in(browser, "bob")
    [_, other] = value_in(browser).split(".")
    assert other == of_alice
    sign_in(browser)
    settings.SECRET_KEY_FALLBACKS = []
    for name in ("alice", "bob"):
        assert not sign_in(browser, name)


@pytest.mark.usefixtures("signs_anew")
def test_it_is_sent_to_nobody_else(settings) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "tests.helpers.site.middleware.Says"]
    browser = Client()
    sign_in(browser)
    replace_key(settings)
    # A cache may keep the answer for others.
    assert DEVICE not in browser.get("/", headers={"X-Says": "public, max-age=60"}).cookies
    assert DEVICE in browser.get("/").cookies
    browser.cookies.pop("sessionid")
    assert DEVICE not in browser.get("/").cookies


@pytest.mark.usefixtures("signs_anew")
def test_without_a_fallback_nothing_is_signed_anew(settings) -> None:
    browser = Client()
    sign_in(browser)
    assert DEVICE not in browser.get("/account/sessions/").cookies
    settings.SECRET_KEY = "leaked before"
    browser = with_cookie(value_in(browser))
    assert sign_in(browser)


@pytest.mark.parametrize(("fallbacks", "hooks"), [([], 0), pytest.param(["old"], 1, marks=pytest.mark.slow)])
def test_a_site_without_fallbacks_looks_at_no_cookie(fallbacks: list[str], hooks: int) -> None:
    words = (
        f"import django; from django.conf import settings; settings.SECRET_KEY_FALLBACKS = {fallbacks!r}; "
        "django.setup(); from django_redsess import middleware; print(len(middleware.response_hooks))"
    )
    assert run_python("-c", words, DJANGO_SETTINGS_MODULE="testproject.settings").split() == [str(hooks)]


# Its name.


@pytest.mark.parametrize("name", ["", "a b", "a;b", "a=b", "é", "Path", 7, "a\n"])
def test_a_name_that_is_none_is_refused(settings, name: object) -> None:
    settings.REDSESS = {**settings.REDSESS, "HISTORY_DEVICE_COOKIE": name}
    assert found() == ["E003"]
    assert check_device_cookie() == []


@pytest.mark.parametrize(
    ("name", "changed", "number"),
    [
        ("shop_device", {}, None),
        *((name, {}, "E118") for name in ("sessionid", "csrftoken", "django_language", "messages")),
        ("shop", {"SESSION_COOKIE_NAME": "shop"}, "E118"),
        *((f"{prefix}a", {"SESSION_COOKIE_SECURE": False}, "E119") for prefix in ("__Secure-", "__Host-")),
        *((f"{prefix}a", {"SESSION_COOKIE_SECURE": True}, None) for prefix in ("__Secure-", "__Host-")),
        ("__Host-a", {"SESSION_COOKIE_SECURE": True, "SESSION_COOKIE_DOMAIN": "shop.example"}, "E119"),
        ("__Host-a", {"SESSION_COOKIE_SECURE": True, "SESSION_COOKIE_PATH": "/shop"}, "E119"),
    ],
)
def test_a_check_refuses_names_that_do_not_work(
    settings, name: str, changed: dict[str, object], number: str | None
) -> None:
    settings.REDSESS = {**settings.REDSESS, "HISTORY_DEVICE_COOKIE": name}
    for setting, value in changed.items():
        setattr(settings, setting, value)
    assert [each.id for each in check_device_cookie()] == ([f"django_redsess.{number}"] if number else [])
