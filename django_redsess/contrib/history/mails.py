"""
The mails to a user: about a sign-in on a new device, and about a request that used a session without the proof of its
device. Sent if ``HISTORY_NOTIFY`` is on.

Somebody else may have sent the request, and may have chosen the user's name. So the mail has only the address and the
browser of the request, not its Host, and not its language. See :func:`_message`.
"""

from __future__ import annotations

import logging
import socket
import unicodedata
from contextlib import suppress
from contextvars import copy_context
from datetime import datetime, timedelta
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from django.apps import apps
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.core import mail
from django.core.exceptions import ImproperlyConfigured, ObjectDoesNotExist
from django.core.mail import EmailMultiAlternatives
from django.core.mail.backends import smtp
from django.db import connections, router
from django.db.models import F
from django.template.loader import render_to_string
from django.urls import NoReverseMatch, get_script_prefix, reverse
from django.utils.module_loading import import_string
from django.utils.translation import override

from django_redsess.accounts.views import LIST, password_change_url
from django_redsess.conf import conf
from django_redsess.contrib.history.database import short_waits
from django_redsess.contrib.history.models import SignIn
from django_redsess.online import browsers, labels, places
from django_redsess.online.labels import in_zone_of
from django_redsess.times import to_aware, to_column
from django_redsess.user_messages import in_our_language

SECONDS_MAX = 5
"""How long a mail server may delay the worker process, with Django's SMTP backend."""

A_DAY_MAX = 5
"""The most mails that a user gets within a day."""

NAME_MAX = 64
"""A longer name of a user is left out."""

NAME_CATEGORIES = ("L", "N", "M")
NAME_SIGNS = "_+-' "
"""The characters of a name in a mail: no mail program makes a link of them, and none changes the text direction."""

EXAMPLE_DOMAIN = "example.com"
"""The default domain of ``django.contrib.sites``."""

logger = logging.getLogger("django_redsess")


class _Topic(NamedTuple):
    """
    What a mail is about: a request ``at`` this time, from ``address``, with ``user_agent``.

    ``template`` begins the names of its templates. ``untold`` are values of the row before the mail, ``told`` those
    that claim it. ``name`` is for the log.
    """

    name: str
    template: str
    at: datetime
    address: str
    user_agent: str
    untold: dict[str, Any]
    told: dict[str, Any]


def notify(sender: Any, user: AbstractBaseUser, sign_in: SignIn, **kwargs: Any) -> None:
    """Receive the signal ``new_device``. Raise nothing: the user has signed in."""
    _notify(user, sign_in, _new_device(sign_in))


def notify_unproven(user: AbstractBaseUser, sign_in: SignIn) -> None:
    """
    Mail the user about the request that has used the session of ``sign_in`` without proof. Raise nothing.

    A request with the address, browser and system of the sign-in is no reason for a mail. The version of the browser
    is not compared: it changes while the session lives.
    """
    client = browsers.browser_and_system(sign_in.unproven_user_agent)
    if (sign_in.unproven_address, client) != (sign_in.address, sign_in.client):
        _notify(user, sign_in, _unproven(sign_in))


def _new_device(sign_in: SignIn) -> _Topic:
    sender = sign_in.address, sign_in.user_agent
    return _Topic(
        "a new device", "new_device", sign_in.created_at, *sender, {"is_notified": False}, {"is_notified": True}
    )


def _unproven(sign_in: SignIn) -> _Topic:
    assert sign_in.unproven_at is not None  # noqa: S101
    at = to_aware(sign_in.unproven_at, not_before=sign_in.created_at)
    sender = sign_in.unproven_address, sign_in.unproven_user_agent
    untold, told = {"unproven_notified_at": None}, {"unproven_notified_at": sign_in.unproven_at}
    return _Topic("a session without proof", "unproven", at, *sender, untold, told)


def _notify(user: AbstractBaseUser, sign_in: SignIn, topic: _Topic) -> None:
    address = getattr(user, user.get_email_field_name(), "")
    if not conf.HISTORY_NOTIFY or not address:
        return
    try:
        if not _claim(sign_in, topic):
            return
        message = _message(user, sign_in, topic, address)
        if conf.HISTORY_MAILER is not None:
            import_string(conf.HISTORY_MAILER)(message)
        else:
            _send(message)
    except Exception as error:  # A template, the site's function and a mail server may raise anything.
        logger.warning("The mail about %s could not be sent: %s.", topic.name, type(error).__name__)


def _claim(sign_in: SignIn, topic: _Topic) -> bool:
    """Mark the row as told. Return False if it already was, or if the user got ``A_DAY_MAX`` mails within a day."""
    using = router.db_for_write(SignIn)
    rows = SignIn.objects.using(using).filter(user_id=sign_in.user_id)
    first = rows.order_by("login_ms").values_list("pk", flat=True)[:1]
    of_lock = rows.filter(pk__in=list(first))
    since = topic.at - timedelta(days=1)
    with short_waits(using):
        # A lock, so that of many concurrent sign-ins the first ones get mails, and later ones do not suppress them.
        of_lock.update(is_notified=F("is_notified"))
        count = rows.filter(is_notified=True, login_ms__gt=int(since.timestamp() * 1000)).count()
        count += rows.filter(unproven_notified_at__gt=to_column(since)).count()
        if count >= A_DAY_MAX:
            return False
        # Sign-ins in the same millisecond share a row.
        return rows.filter(pk=sign_in.pk, **topic.untold).update(**topic.told) == 1


def _message(user: AbstractBaseUser, sign_in: SignIn, topic: _Topic, address: str) -> EmailMultiAlternatives:
    site, root = site_and_root()
    with override(_language_of(user)), in_our_language(), in_zone_of(user):
        sessions, password = _sessions_path(), password_change_url()
        context: dict[str, Any] = {
            "user": user,
            "name": shown_name(user.get_username(), address),
            "sign_in": sign_in,
            "site": site,
            "at": labels.exactly(topic.at),
            "address": topic.address,
            "browser": browsers.known_client(topic.user_agent),
            "place": places.find_places([topic.address]).get(topic.address, ""),
            "signed_in_at": labels.exactly(sign_in.created_at),
            "sessions_url": _url(root, sessions),
            "password_url": _url(root, password),
        }
        template = f"django_redsess/history/{topic.template}"
        context["subject"] = " ".join(render_to_string(f"{template}_subject.txt", context).split())
        text, html = (render_to_string(f"{template}{end}", context) for end in (".txt", ".html"))
    message = EmailMultiAlternatives(context["subject"], text, to=[address])
    message.attach_alternative(html, "text/html")
    return message


def site_and_root() -> tuple[str, str]:
    """
    Return the name of the site, and the root of its URLs. Both are ``""`` if no setting has them.

    They never come from the request: its Host may be a stranger's that ``ALLOWED_HOSTS`` allows.
    """
    if conf.HISTORY_SITE_URL:
        return urlsplit(conf.HISTORY_SITE_URL).netloc, conf.HISTORY_SITE_URL.rstrip("/")
    if apps.is_installed("django.contrib.sites"):
        from django.contrib.sites.models import Site  # The model exists only where its app is installed.

        with suppress(ImproperlyConfigured, ObjectDoesNotExist):
            domain = Site.objects.get_current().domain
            if domain != EXAMPLE_DOMAIN:
                return domain, f"https://{domain}"
    return "", ""


def _url(root: str, path: str) -> str:
    """Return the URL of ``path`` below ``root``. ``""`` if either is ``""``."""
    if not (root and path):
        return ""
    if urlsplit(root).path:
        # The root has the site's prefix. So has the path, from SCRIPT_NAME.
        path = "/" + path.removeprefix(get_script_prefix())
    return root + path


def shown_name(name: str, address: str) -> str:
    """
    Return the name of a user for a mail to ``address``. ``""`` if it may look like anything but a name.

    An attacker may sign up with somebody else's address, and chooses the name. Mail programs make a link of
    ``evil.example``.
    """
    is_plain = all(unicodedata.category(each)[0] in NAME_CATEGORIES or each in NAME_SIGNS for each in name)
    return name if name == address or (is_plain and len(name) <= NAME_MAX) else ""


def _language_of(user: AbstractBaseUser) -> str:
    # The language of the request may be an attacker's.
    language: Any = ""
    try:
        if conf.HISTORY_LANGUAGE is not None:
            language = import_string(conf.HISTORY_LANGUAGE)(user)
    except Exception as error:  # The site's function may raise anything. The mail matters more than its language.
        logger.warning("REDSESS['HISTORY_LANGUAGE'] failed: %s.", type(error).__name__)
    return language if isinstance(language, str) and language else settings.LANGUAGE_CODE


def _sessions_path() -> str:
    try:
        return reverse(LIST)
    except NoReverseMatch:  # Its pages are not part of this site.
        return ""


def _send(message: EmailMultiAlternatives) -> None:
    # Django 6.1 has named mailers. Before, there was one.
    connection: Any = mail.mailers.default if hasattr(mail, "mailers") else mail.get_connection()
    # The time-out of each reply.
    connection.timeout = SECONDS_MAX
    if isinstance(connection, smtp.EmailBackend):
        _send_by_smtp(connection, message)
    else:
        # It may write the mail to a database, and needs this thread's connection and tenant.
        connection.send_messages([message])


def _send_by_smtp(connection: Any, message: EmailMultiAlternatives) -> None:
    """Send ``message``. Raise TimeoutError after ``SECONDS_MAX``, even if the server sends a letter now and then."""
    failed = list[Exception]()

    def send() -> None:
        try:
            connection.send_messages([message])
        except Exception as error:
            failed.append(error)
        finally:
            # A subclass may use a database. Nothing else closes the connections of this thread.
            connections.close_all()

    thread = Thread(target=copy_context().run, args=(send,), daemon=True)
    thread.start()
    thread.join(SECONDS_MAX)
    if thread.is_alive():
        with suppress(AttributeError, OSError):
            connection.connection.sock.shutdown(socket.SHUT_RDWR)
        raise TimeoutError(f"The mail server has not answered within {SECONDS_MAX} seconds.")
    if failed:
        raise failed[0]
