"""What Django's tests of sessions need, and the engine under test."""

SECRET_KEY = "for tests only"
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "django_redsess",
    "sessions_tests",
]
# Django's tests of its own engines, in the same file, bring models and name their session in the database.
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
SESSION_ENGINE = "django_redsess.backend"
