"""What Django's own tests of sessions need, and the engine under test."""

from tests.helpers.site.settings import *  # noqa: F403
from tests.helpers.site.settings import INSTALLED_APPS

# Django's tests of its own engines, in the same file, bring models and name their session in the database.
INSTALLED_APPS = [*INSTALLED_APPS, "sessions_tests"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
# Nothing of the shop's.
REDSESS: dict[str, object] = {}
