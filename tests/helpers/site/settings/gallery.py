"""The shop as its visitors see it, without what Django tells developers: for pictures of its pages."""

from tests.helpers.site.settings import *  # noqa: F403

ROOT_URLCONF = "testproject.urls"
DEBUG = False
