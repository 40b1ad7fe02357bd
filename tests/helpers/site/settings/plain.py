"""Self-service without the frame of the shop, in the browser's language: as on a site that replaces no template."""

from tests.helpers.site.settings.strict import *  # noqa: F403
from tests.helpers.site.settings.strict import MIDDLEWARE as OF_STRICT

DEBUG = False
MIDDLEWARE = [
    "django.middleware.locale.LocaleMiddleware" if name.startswith("testproject.language") else name
    for name in OF_STRICT
]
