"""Receivers of Django's signals are called after ours, wherever their apps are listed."""

import pytest

from tests.helpers.running import run_python

pytestmark = pytest.mark.unit

RECEIVERS = """
import django
from django.conf import settings
from django.contrib.auth.signals import user_logged_in
from django.http import HttpRequest

class User:
    def save(self, update_fields):
        pass

others = ["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"]
settings.configure(INSTALLED_APPS=[*others, "django_redsess"])
django.setup()
print(*(receiver.__module__ for receiver, _ in user_logged_in.send(None, request=HttpRequest(), user=User())))
"""


@pytest.mark.slow
def test_receivers_of_apps_that_are_listed_before_ours_are_called_after_ours() -> None:
    assert run_python("-c", RECEIVERS).split() == ["django_redsess.accounts.signals", "django.contrib.auth.models"]
