"""The language of our own pages."""

from __future__ import annotations

from django.conf import settings
from django.conf.urls.i18n import is_language_prefix_patterns_used
from django.utils.translation import get_language, override
from django.utils.translation.trans_real import translation

PROBE = "Your sessions"
"""A catalogue that has this text has our texts."""


def in_our_language() -> override:
    """
    Return a context in which a page is rendered in one language: the active one, if it has our texts.

    Otherwise it is the site's ``LANGUAGE_CODE`` or English. Django has dates in a hundred languages, and would mix them
    with our sentences in another one.
    """
    active = get_language() or "en"
    wanted = [each for each in (active, settings.LANGUAGE_CODE, "en") if _has_our_texts(each)]
    used, _ = is_language_prefix_patterns_used(settings.ROOT_URLCONF)
    if used:
        # The page's links begin with its language. Those with a language that the site does not have lead nowhere.
        wanted = [each for each in wanted if each in dict(settings.LANGUAGES)]
    return override(next(iter(wanted), active))


def _has_our_texts(language: str) -> bool:
    # gettext() would also find the texts of LANGUAGE_CODE, which Django adds to each other language.
    return language.startswith("en") or PROBE in translation(language)._catalog  # type: ignore[attr-defined]
