"""The admin with the looks of django-jazzmin in place of its own."""

from tests.helpers.site.settings import *  # noqa: F403
from tests.helpers.site.settings import INSTALLED_APPS

INSTALLED_APPS = ["jazzmin", *INSTALLED_APPS]
# Fonts of another server would be waited for.
JAZZMIN_SETTINGS = {"use_google_fonts_cdn": False}
# Light or dark, as the browser asks.
JAZZMIN_UI_TWEAKS = {"default_theme_mode": "auto"}
