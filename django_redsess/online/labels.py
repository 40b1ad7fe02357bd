"""
How sessions are shown: times and untrusted text, and the time zone of their times.

Times of sessions are compared with the server's time, and shown by it. The wall clock of a web process may be minutes
off, and differ from that of another process.

Their time zone is the first of these: one that the site has activated, the one that ``USER_TIME_ZONE`` finds for the
user, that of the browser, the site's ``TIME_ZONE``. The static file ``zone.js`` writes the browser's into a cookie.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import wraps
from typing import Any
from zoneinfo import ZoneInfo

from django.contrib.messages import get_messages
from django.core.exceptions import ImproperlyConfigured
from django.forms import Media
from django.http import HttpRequest, HttpResponse
from django.template.response import SimpleTemplateResponse
from django.templatetags.static import static
from django.utils import timezone
from django.utils.formats import date_format, get_format
from django.utils.html import avoid_wrapping, format_html
from django.utils.module_loading import import_string
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext, ngettext_lazy, pgettext

from django_redsess.conf import conf
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.online.ending import confirmed_too_few
from django_redsess.session.client import ZONE_COOKIE, is_zone_of_site, zone_of_browser
from django_redsess.transport.connections import server_of
from django_redsess.transport.keys import keyspace
from django_redsess.transport.steps import current_time, drive, time_of

logger = logging.getLogger("django_redsess")

_failing_zones = set[str]()


def server_time() -> datetime:
    """
    Return the time of the server that stores the sessions; of several, of the one with the first partition.

    The server is asked only if it has not told its time to this process yet. Raises SessionStoreUnavailable if it does
    not answer then.
    """
    return time_of(drive(current_time(keyspace().partitions[0])))


def known_server_time() -> datetime:
    """
    Return the same time without asking the server: for times that are only shown, and for pages that work in an outage.

    Before the server has told its time, return that of this process.
    """
    known = None
    with suppress(SessionStoreUnavailable, ImproperlyConfigured):
        # In an outage of a cluster, it is not known which server that is. A site that has left the engine has none.
        known = server_of(keyspace().partitions[0]).clock.now()
    return datetime.now(UTC) if known is None else time_of(known)


def known_server_day() -> date:
    """Return the day of :func:`known_server_time` in the present time zone."""
    return timezone.localdate(known_server_time())


def or_not_stored(text: str) -> str:
    """Return ``text``, an address or a browser. For ``""``, return words for a session without one."""
    return text or gettext("not stored")


def when(at: datetime) -> SafeString:
    """Return ``at`` as HTML: the time since or until ``at``, with the exact time on hover."""
    present = known_server_time()
    if abs(present - at) < timedelta(minutes=1):
        text = gettext("just now") if at <= present else gettext("in less than a minute")
    else:
        unit, number = _largest_unit(abs(present - at))
        text = avoid_wrapping((_AGO if at < present else _IN)[unit] % {"num": number})
    local = timezone.localtime(at)
    return format_html('<time datetime="{}" title="{}">{}</time>', local.isoformat(), exactly(at), text)


# Whole phrases: the form of "days" within "2 days ago" is another one in some languages.
_AGO = {
    "minute": ngettext_lazy("1 minute ago", "%(num)d minutes ago", "num"),
    "hour": ngettext_lazy("1 hour ago", "%(num)d hours ago", "num"),
    "day": ngettext_lazy("1 day ago", "%(num)d days ago", "num"),
    "month": ngettext_lazy("1 month ago", "%(num)d months ago", "num"),
    "year": ngettext_lazy("1 year ago", "%(num)d years ago", "num"),
}
_IN = {
    "minute": ngettext_lazy("in 1 minute", "in %(num)d minutes", "num"),
    "hour": ngettext_lazy("in 1 hour", "in %(num)d hours", "num"),
    "day": ngettext_lazy("in 1 day", "in %(num)d days", "num"),
    "month": ngettext_lazy("in 1 month", "in %(num)d months", "num"),
    "year": ngettext_lazy("in 1 year", "in %(num)d years", "num"),
}


def _largest_unit(time: timedelta) -> tuple[str, int]:
    """Return the largest unit that ``time`` has, and how many of it. No weeks: they would make 13 days one week."""
    if time.days > 60:
        return ("month", time.days * 12 // 365) if time.days < 365 else ("year", time.days // 365)
    if time.days:
        return "day", time.days
    minutes = time // timedelta(minutes=1)
    return ("minute", minutes) if minutes < 60 else ("hour", minutes // 60)


def exactly(at: datetime) -> str:
    """Return ``at`` as text: date, time of day and time zone."""
    local = timezone.localtime(at)
    return f"{date_format(local, 'DATETIME_FORMAT')} {local.tzname()}"


def shortly(at: datetime) -> SafeString:
    """Return ``at`` as HTML: day and time of day, and the year if it is not this one. Hovering shows the whole time."""
    local = timezone.localtime(at)
    is_of_this_year = local.year == timezone.localtime(known_server_time()).year
    # As Django writes dates in this language, with short names of months.
    day = get_format("MONTH_DAY_FORMAT" if is_of_this_year else "DATE_FORMAT").replace("F", "N")
    text = pgettext("a day, and a time of it", "%(day)s, %(time)s")
    # In a narrow column, only the comma ends a line.
    parts = {"day": date_format(local, day), "time": date_format(local, "TIME_FORMAT")}
    text %= {name: avoid_wrapping(part) for name, part in parts.items()}
    html = '<time class="redsess-time" datetime="{}" title="{}">{}</time>'
    return format_html(html, local.isoformat(), exactly(at), text)


def confirmation_text(confirmed_by: int | None) -> str:
    """Return a sentence about the replicas that hold an end: see :class:`django_redsess.online.EndedList`."""
    if confirmed_by is None:
        return ""
    if not confirmed_too_few(confirmed_by):
        text = ngettext("%(count)d replica has this.", "%(count)d replicas have this.", confirmed_by)
        return text % {"count": confirmed_by}
    wanted, _ = conf.CONFIRM_ENDS or (0, 0)
    text = gettext(
        "Fewer replicas than CONFIRM_ENDS asks for have this (%(count)d of %(wanted)d): the sessions are ended, and "
        "may return after a failover."
    )
    return text % {"count": confirmed_by, "wanted": wanted}


def printable(text: str) -> str:
    """Return ``text``, escaped if it has control characters. A stranger's text must not control the terminal."""
    return text if text.isprintable() else ascii(text)


@contextmanager
def in_zone_of(user: Any) -> Iterator[None]:
    """
    Return a context that shows times in the time zone of ``user``, else in ``TIME_ZONE``: for mails.

    The zone of the request is ignored: the request may be a stranger's.
    """
    with timezone.override(_zone_of(user) or timezone.get_default_timezone()):
        yield


@contextmanager
def in_zone_of_reader(request: HttpRequest) -> Iterator[tzinfo]:
    """Return a context that shows times in the zone of whoever reads the page: see above. It gives the zone."""
    zone: tzinfo = timezone.get_current_timezone()
    if is_zone_of_site():
        zone_of_user = _zone_of(request.user) if request.user.is_authenticated else None
        # zone_js() needs it.
        request.redsess_asks_browser = zone_of_user is None  # type: ignore[attr-defined]
        zone = zone_of_user or zone_of_browser(request) or zone
    with timezone.override(zone):
        yield zone


def zone_js(request: HttpRequest) -> SafeString:
    """
    Return the element that sets the cookie, to be shown within :func:`in_zone_of_reader`. ``""`` where none is needed.

    If the cookie is new, the script loads the page once more, unless that would lose something: the answer to a form,
    or messages that are shown once.
    """
    if not getattr(request, "redsess_asks_browser", False):
        return SafeString()
    html = '<script src="{}" data-cookie="{}" data-shown="{}" data-reloads="{}"></script>'
    reloads = request.method == "GET" and not len(get_messages(request))
    shown = str(timezone.get_current_timezone())
    return format_html(html, static("django_redsess/zone.js"), ZONE_COOKIE, shown, "true" if reloads else "")


def shown_to_reader(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Return the view of an admin page, with times in the zone of its reader."""

    @wraps(view)
    def shown(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        with in_zone_of_reader(request) as zone:
            response = view(request, *args, **kwargs)
            context = getattr(response, "context_data", None)
            if context and "media" in context and (script := zone_js(request)):
                context["media"] += Media(js=[script])
        if isinstance(response, SimpleTemplateResponse) and not response.is_rendered:
            _render_in(response, zone)
        return response

    return shown


def _render_in(response: Any, zone: tzinfo) -> None:
    # Django renders it after the view has returned.
    def render() -> HttpResponse:
        del response.render
        with timezone.override(zone):
            rendered: HttpResponse = response.render()
        return rendered

    response.render = render


def _zone_of(user: Any) -> tzinfo | None:
    path = conf.USER_TIME_ZONE
    if path is None:
        return None
    try:
        found = import_string(path)(user)
        zone = ZoneInfo(found) if isinstance(found, str) else found
        if zone is not None:
            # Raises if this is no tzinfo, or one that does not work.
            datetime.fromtimestamp(0, zone).isoformat()
    except Exception:  # The site's own function may raise anything.
        if path not in _failing_zones:
            logger.exception(
                "Times are shown in TIME_ZONE: %s, the function that REDSESS['USER_TIME_ZONE'] names, failed.", path
            )
        _failing_zones.add(path)
        return None
    _failing_zones.discard(path)
    return zone
