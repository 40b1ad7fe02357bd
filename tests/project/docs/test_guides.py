"""What a new project does with the settings of README and tutorial, and with guides that it follows to the letter."""

from collections.abc import Callable
from pathlib import Path

import pytest

from testproject.servers import Server, free_port
from tests.helpers.running import Running
from tests.project.docs.pages import DOCS, ROOT, blocks
from tests.project.docs.projects import manage, write_all

TEST_WITHOUT_SERVER = """
from django.contrib.auth.models import User
from django.test import TestCase

class BasketTest(TestCase):
    def test_what_is_saved_is_there(self):
        ada = User.objects.create_user("ada", is_staff=True)
        session = self.client.session
        session["basket"] = [7]
        session.save()
        self.client.force_login(ada)
        self.assertEqual(self.client.session["basket"], [7])
        self.assertEqual(self.client.get("/admin/").status_code, 200)
        ada.is_active = False
        with self.captureOnCommitCallbacks(execute=True):
            ada.save()
        self.assertEqual(self.client.get("/admin/").status_code, 302)
"""


def test_the_settings_of_the_readme_are_all_that_a_new_project_needs(shop: Path) -> None:
    [settings] = [block.text for block in blocks(DOCS / "tutorial.rst") if block.language == "python"]
    assert settings in [block.text for block in blocks(ROOT / "README.rst")]
    ran = manage(shop, "check", "--fail-level", "WARNING")
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.slow
def test_a_new_project_is_told_what_is_missing(shop: Path) -> None:
    package = shop / "django_redis.py"
    package.write_text("raise ModuleNotFoundError(name='django_redis')")
    ran = manage(shop, "check")
    assert (ran.returncode, "pip install django-redis" in ran.stderr.splitlines()[-1]) == (1, True)
    package.unlink()
    with (shop / "shop" / "settings.py").open("a") as settings:
        settings.write('\nINSTALLED_APPS.remove("django_redsess")\n')
    # No check of ours is known then. Django's admin imports each middleware in its own.
    ran = manage(shop, "check")
    [line] = ran.stderr.splitlines()
    assert (ran.returncode, line.startswith("'django_redsess' is not in INSTALLED_APPS: add it")) == (1, True)
    # A server logs where it is imported.
    ran = manage(shop, "shell", "-c", "import shop.wsgi")
    assert (ran.returncode, "is not in INSTALLED_APPS: add it" in ran.stderr.splitlines()[-1]) == (1, True)


@pytest.mark.django_db
def test_the_list_of_who_is_online_says_that_another_engine_keeps_the_sessions(settings, client, admin_user) -> None:
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
    client.force_login(admin_user)
    page = client.get("/admin/django_redsess/onlinesession/")
    assert ["SESSION_ENGINE" in str(message) for message in page.context["messages"]] == [True]


@pytest.mark.slow
def test_a_command_that_can_not_reach_the_server_says_so_in_a_line(start: Callable[..., Running]) -> None:
    url = f"redis://127.0.0.1:{free_port()}/0"
    commands = "clearsessions", "online", "endsessions --all --noinput", "cleansessions", "cleanviewed"
    started = [start(*command.split(), url=url) for command in commands]
    for status, told in [command.ended() for command in started]:
        assert "Traceback" not in told
        # The first is for the log, which this site does not keep. Django's own clearsessions runs all checks before.
        *_, logged, error = told.splitlines()
        assert (status, logged.startswith("Sessions can't be reached: ")) == (1, True)
        assert ": The server that holds the sessions can't be reached" in error


@pytest.mark.slow
def test_the_tests_of_the_guide_pass_and_leave_nothing_in_redis(shop: Path, server: Server) -> None:
    write_all(shop, "howto/testing.rst", server)
    ran = manage(shop, "test", "--settings", "shop.test_settings", "--parallel", "2")
    assert (ran.returncode, "Ran 4 tests" in ran.stderr) == (0, True), ran.stderr
    assert server.client.keys() == []


@pytest.mark.slow
def test_tests_without_a_server_keep_what_a_client_saves(shop: Path, server: Server) -> None:
    write_all(shop, "howto/testing.rst", server)
    (shop / "shop" / "tests.py").write_text(TEST_WITHOUT_SERVER)
    server.client.config_resetstat()
    ran = manage(shop, "test", "--settings", "shop.settings_without_server")
    assert (ran.returncode, "Ran 1 test" in ran.stderr) == (0, True), ran.stderr
    assert "evalsha" not in str(server.client.info("commandstats"))
    ran = manage(shop, "check", "--settings", "shop.settings_without_server")
    assert "no issues" in ran.stdout, ran.stderr


@pytest.mark.slow
def test_a_project_that_leaves_has_nothing_to_complain_about(shop: Path, server: Server) -> None:
    assert manage(shop, "migrate").returncode == 0
    assert manage(shop, "migrate", "django_redsess", "zero").returncode == 0
    [back] = [block.text for block in blocks(DOCS / "howto" / "leaving.rst") if block.heading == "shop/settings.py"]
    with (shop / "shop" / "settings.py").open("a") as file:
        file.write(back)
    ran = [
        manage(shop, "check", "--fail-level", "WARNING"),
        manage(shop, "migrate"),
        manage(shop, "remove_stale_contenttypes", "--include-stale-apps", "--noinput"),
    ]
    assert [each.returncode for each in ran] == [0, 0, 0], ran
    left = "from django.contrib.auth.models import Permission as P; "
    left += "print(P.objects.filter(content_type__app_label='django_redsess').count())"
    assert manage(shop, "shell", "--command", left).stdout.split()[-1] == "0"


ALLAUTH_SETTINGS = """
INSTALLED_APPS += ["django.contrib.humanize", "allauth", "allauth.account", "allauth.usersessions"]
MIDDLEWARE += ["allauth.account.middleware.AccountMiddleware", "allauth.usersessions.middleware.UserSessionsMiddleware"]
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
ROOT_URLCONF = "shop.allauth_urls"
"""

ALLAUTH_URLS = """
from django.urls import include, path

urlpatterns = [
    path("accounts/", include("allauth.urls")),
    path("account/sessions/", include("django_redsess.accounts.urls")),
]
"""

ALLAUTH_TEST = """
from datetime import timedelta
from unittest.mock import patch

from django.contrib.auth.models import User
from django.test import Client, TestCase
from django.utils import timezone
from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.signals import sessions_ended
from django_redsess.testing import SessionStoreMixin

class DevicesTest(SessionStoreMixin, TestCase):
    def test_the_other_device_is_told(self):
        User.objects.create_user("ada", password="correct-horse")
        here, there = Client(), Client()
        for device in (here, there):
            device.post("/accounts/login/", {"login": "ada", "password": "correct-horse"})
        ended = []
        sessions_ended.connect(lambda sessions, **kwargs: ended.extend(each.reason for each in sessions), weak=False)
        here.post("/accounts/sessions/")
        self.assertEqual(ended, ["kicked"])
        self.assertEqual(here.get("/accounts/sessions/").status_code, 200)
        answer = there.get("/accounts/sessions/")
        self.assertEqual((answer.status_code, answer["X-Session-Ended"]), (302, "kicked"))
        here.post("/accounts/sessions/")
        self.assertEqual(ended, ["kicked"])

    @patch("django_redsess.accounts.reauthentication.RECENT_SECONDS", 0)
    def test_allauth_asks_for_the_password_again_and_goes_on_with_what_was_asked_for(self):
        ada = User.objects.create_user("ada", password="correct-horse")
        here, there = Client(), Client()
        for device in (here, there):
            device.post("/accounts/login/", {"login": "ada", "password": "correct-horse"})
        # The question is asked first, on our page.
        self.assertContains(here.get("/account/sessions/end-others/"), "Sign out everywhere else?")
        sid = SessionStore(there.cookies["sessionid"].value).sid
        asked = here.post(f"/account/sessions/{sid}/end/")
        self.assertRedirects(asked, f"/accounts/reauthenticate/?next=/account/sessions/{sid}/end/")
        self.assertEqual(online.count(), 2)
        self.assertEqual(here.post(asked["Location"], {"password": "wrong"}).status_code, 200)
        self.assertEqual(online.count(), 2)
        self.assertRedirects(here.post(asked["Location"], {"password": "correct-horse"}), "/account/sessions/")
        self.assertEqual(online.count(), 1)
        self.assertEqual(here.post("/account/sessions/not-me/")["Location"], "/account/sessions/not-me/")
        self.assertIn("/accounts/password/change/", here.get("/account/sessions/not-me/").text)

    @patch("django_redsess.accounts.reauthentication.RECENT_SECONDS", 0)
    def test_allauth_asks_nobody_without_a_password(self):
        here = Client()
        here.force_login(User.objects.create_user("ada"))
        self.assertEqual(here.post("/account/sessions/end-others/")["Location"], "/account/sessions/not-me/")

    def test_who_is_blocked_reads_so_on_the_sign_in_page(self):
        ada = User.objects.create_user("ada", password="correct-horse")
        online.block(ada, until=timezone.now() + timedelta(hours=1), message="Call us.")
        here = Client()
        answer = here.post("/accounts/login/", {"login": "ada", "password": "correct-horse"}, follow=True)
        self.assertEqual(answer.redirect_chain, [("/accounts/login/", 302)])
        self.assertContains(answer, "Call us.")
        self.assertEqual(online.count(), 0)
        online.unblock(ada)
        here.post("/accounts/login/", {"login": "ada", "password": "correct-horse"})
        self.assertEqual(online.count(), 1)
"""


@pytest.mark.slow
def test_allauth_asks_for_passwords_and_its_adapter_ends_sessions_as_users_do(shop: Path, server: Server) -> None:
    with (shop / "shop" / "settings.py").open("a") as file:
        file.write(ALLAUTH_SETTINGS + f"\nCACHES['sessions']['LOCATION'] = {server.url!r}\n")
    (shop / "shop" / "allauth_urls.py").write_text(ALLAUTH_URLS)
    (shop / "shop" / "tests.py").write_text(ALLAUTH_TEST)
    ran = manage(shop, "test")
    assert "[<Reason.INVALIDATED: 'invalidated'>] != ['kicked']" in ran.stderr, ran.stderr
    write_all(shop, "howto/allauth.rst", server)
    ran = manage(shop, "test")
    assert (ran.returncode, "Ran 4 tests" in ran.stderr) == (0, True), ran.stderr
