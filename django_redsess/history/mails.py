"""The mail to a user who has signed in on a new device. Sent if ``HISTORY_NOTIFY`` is on."""

from __future__ import annotations

import logging
import socket
from contextlib import suppress
from threading import Thread
from typing import Any

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.core import mail
from django.core.mail import EmailMultiAlternatives
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import NoReverseMatch, reverse
from django.utils.module_loading import import_string
from django.utils.translation import override

from django_redsess.conf import conf
from django_redsess.history.models import SignIn
from django_redsess.online import labels, places
from django_redsess.views import LIST, password_change_url

SECONDS_MAX = 5
"""How long a mail server may keep the process that has answered the sign-in."""

A_DAY_MAX = 5
"""The most mails that a user gets within a day."""

DAY_MS = 24 * 3600 * 1000

logger = logging.getLogger("django_redsess")


def notify(sender: Any, request: HttpRequest, user: AbstractBaseUser, sign_in: SignIn, **kwargs: Any) -> None:
    """Receive the signal ``new_device``. Nothing is raised: the user is signed in."""
    address = getattr(user, user.get_email_field_name(), "")
    if not conf.HISTORY_NOTIFY or not address:
        return
    latest = SignIn.objects.filter(user_id=sign_in.user_id, is_new=True, login_ms__gt=sign_in.login_ms - DAY_MS)
    if latest.count() > A_DAY_MAX:
        return
    try:
        message = _message(request, user, sign_in, address)
        if conf.HISTORY_MAILER is not None:
            import_string(conf.HISTORY_MAILER)(message)
        else:
            _send(message)
    except Exception as error:  # A template, the site's function and a mail server may raise anything.
        logger.warning("The mail about a new device could not be sent: %s.", type(error).__name__)


def _message(request: HttpRequest, user: AbstractBaseUser, sign_in: SignIn, address: str) -> EmailMultiAlternatives:
    with override(getattr(request, "LANGUAGE_CODE", None) or settings.LANGUAGE_CODE), labels.in_our_language():
        sessions, password = _sessions_path(), password_change_url()
        context = {
            "user": user,
            "sign_in": sign_in,
            "site": request.get_host(),
            "at": labels.exactly(sign_in.login_at),
            "browser": labels.browser_name(sign_in.user_agent),
            "place": places.of([sign_in.address]).get(sign_in.address, ""),
            "sessions_url": sessions and request.build_absolute_uri(sessions),
            "password_url": password and request.build_absolute_uri(password),
        }
        subject, text, html = (
            render_to_string(f"django_redsess/history/new_device{end}", context)
            for end in ("_subject.txt", ".txt", ".html")
        )
    message = EmailMultiAlternatives(" ".join(subject.split()), text, to=[address])
    message.attach_alternative(html, "text/html")
    return message


def _sessions_path() -> str:
    try:
        return reverse(LIST)
    except NoReverseMatch:  # Its pages are not part of this site.
        return ""


def _send(message: EmailMultiAlternatives) -> None:
    # Django 6.1 has named mailers. Before, there was one.
    connection: Any = mail.mailers.default if hasattr(mail, "mailers") else mail.get_connection()
    # That of each answer. A server that sends a letter now and then could take for ever, so there is a thread, too.
    connection.timeout = SECONDS_MAX
    failed = list[Exception]()

    def send() -> None:
        try:
            connection.send_messages([message])
        except Exception as error:
            failed.append(error)

    thread = Thread(target=send, daemon=True)
    thread.start()
    thread.join(SECONDS_MAX)
    if thread.is_alive():
        with suppress(AttributeError, OSError):
            connection.connection.sock.shutdown(socket.SHUT_RDWR)
        raise TimeoutError
    if failed:
        raise failed[0]
