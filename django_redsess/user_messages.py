"""
Messages to users about the end of their sessions: how they are stored, and their words.

A message is own words, a ready-made message, or a ready-made message and own words behind it. Of a ready-made message
its code is stored. Its words are made when somebody reads it, in the reader's language. Own words stay as they are.

In the stored form, a tab follows the code. Own words have none: they are on one line.

An operator's words may be in another language than the text around them, and be written in another direction. Where
people read them, they are isolated: by marks of Unicode in a text, by an element in HTML. Programs get plain text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from django.conf import settings
from django.conf.urls.i18n import is_language_prefix_patterns_used
from django.utils.functional import Promise
from django.utils.html import format_html, urlize
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language, get_language_bidi, gettext, gettext_lazy, override
from django.utils.translation.trans_real import translation

from django_redsess.conf import CODE_MAX, MESSAGE_MAX, conf, is_code

PASSWORD_CHANGED: Final = "password_changed"  # noqa: S105, the code of a message
ACCOUNT_DEACTIVATED: Final = "account_deactivated"
ACCOUNT_DELETED: Final = "account_deleted"
ENDED_BY_USER: Final = "ended_by_user"

OWN_MESSAGES: Mapping[str, str | Promise] = {
    PASSWORD_CHANGED: gettext_lazy("Your password was changed."),
    ACCOUNT_DEACTIVATED: gettext_lazy("Your account was deactivated."),
    ACCOUNT_DELETED: gettext_lazy("Your account was deleted."),
    ENDED_BY_USER: gettext_lazy(
        "You signed this device out from another one. If that was not you, change your password."
    ),
}
"""The ready-made messages that this package gives by itself. ``END_MESSAGES`` has those that administrators choose."""

TAB = "\t"

STORED_MAX = CODE_MAX + len(TAB) + MESSAGE_MAX
"""The most characters of a message in its stored form."""

JOINERS = "\u200c\u200d"
"""Joiners that Persian, Hindi and many emoji need. Python counts them as not printable."""


def ready_messages() -> dict[str, str | Promise]:
    """Return all ready-made messages by code. The site may have words of its own for a code of ours."""
    return {**OWN_MESSAGES, **conf.END_MESSAGES}


def ready_message(code: str, words: str = "") -> str:
    """
    Return the ready-made message ``code``, as each function takes it that takes a ``message`` to users.

    ``code`` is a key of :confval:`END_MESSAGES`, or of a message of ours. ``words`` are own words behind it, at most
    200 characters. Raises ValueError for an unknown code, and for more words.
    """
    if code not in ready_messages():
        raise ValueError(f"{code!r} is no code of a ready-made message. The codes: {', '.join(ready_messages())}.")
    return f"{code}{TAB}{check_message(clean_text(words))}"


def check_message(message: str) -> str:
    """Return ``message`` in its stored form. Raises ValueError for more than 200 characters of own words."""
    code, words = _parts_of(str(message))
    if code and code not in ready_messages():
        code, words = "", f"{code} {words}"
    cleaned = clean_text(words)
    if len(cleaned) > MESSAGE_MAX:
        raise ValueError(f"A message to ended users has at most {MESSAGE_MAX} characters, not {len(cleaned)}.")
    return f"{code}{TAB}{cleaned}" if code else cleaned


def code_of(stored: str) -> str:
    """Return the code of a stored message. ``""`` if it has own words only."""
    return _parts_of(stored)[0]


def plain(text: str) -> str:
    """Return ``text`` as it is, for programs."""
    return text


def isolated(text: str) -> str:
    """Return ``text`` with marks that isolate its direction, if the active language is written from right to left."""
    return f"\u2068{text}\u2069" if text and get_language_bidi() else text


def isolated_html(text: str) -> SafeString:
    """Return ``text`` as HTML, with links, and in an element that isolates its direction."""
    return format_html("<bdi>{}</bdi>", mark_safe(urlize(text, autoescape=True)))  # noqa: S308  # it is escaped


def message_in_words(stored: str, isolate: Callable[[str], str] = plain) -> str:
    """
    Return the words of a stored message, in the active language.

    If the site has no ready-made message of this code any more, these are the own words only. ``isolate`` is applied to
    what a site or an administrator has written: see above.
    """
    code, words = _parts_of(stored)
    # Another program may have stored any text.
    ready, own = ready_messages().get(code, "") if code else "", clean_text(words)[:MESSAGE_MAX]
    return " ".join(map(isolate, filter(None, (clean_text(str(ready)), own))))


def contact_text(isolate: Callable[[str], str] = plain) -> str:
    """Return the sentence that says whom users can ask. ``""`` if ``SUPPORT_CONTACT`` names nobody."""
    contact = clean_text(str(conf.SUPPORT_CONTACT))
    return gettext("Questions? %(contact)s") % {"contact": isolate(contact)} if contact else ""


def clean_text(text: str) -> str:
    """Return ``text`` on one line, without characters that could forge a log line or a header."""
    return " ".join("".join(letter if letter.isprintable() or letter in JOINERS else " " for letter in text).split())


def _parts_of(stored: str) -> tuple[str, str]:
    code, tab, words = stored.partition(TAB)
    return (code, words) if tab and is_code(code) else ("", stored)


def in_our_language() -> override:
    """
    Return a context in which a page is rendered in one language: the active one, if it has our texts.

    Otherwise it is the site's ``LANGUAGE_CODE`` or English. Django has dates in a hundred languages, and would mix them
    with our sentences in another one.
    """
    active = get_language() or "en"
    wanted = [each for each in (active, settings.LANGUAGE_CODE, "en") if _has_our_texts(each)]
    # A program that has no pages may have no URLs.
    urls = getattr(settings, "ROOT_URLCONF", None)
    if urls and is_language_prefix_patterns_used(urls)[0]:
        # The page's links begin with its language. Those with a language that the site does not have lead nowhere.
        wanted = [each for each in wanted if each in dict(settings.LANGUAGES)]
    return override(next(iter(wanted), active))


def _has_our_texts(language: str) -> bool:
    # gettext() would also find the texts of LANGUAGE_CODE, which Django adds to each other language.
    return language.startswith("en") or "This device" in translation(language)._catalog  # type: ignore[attr-defined]
