"""
The settings of the site in a process of its own: those of the shop, and the URLs of tests/helpers/site.

Each module here derives from these and changes what it is about: ``unfold`` and ``jazzmin`` the looks of the admin,
``user_models`` the user model, ``strict`` the Content-Security-Policy, ``django_sessions`` what Django's tests need.
Tests in pytest's own process start from the shop's settings; their fixtures take the site's ``urls``.
"""

from testproject.settings import *  # noqa: F403

ROOT_URLCONF = "tests.helpers.site.urls"
