"""How pages and commands show browsers and times."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince, timeuntil
from django.utils.translation import gettext, ngettext


def browser_name(user_agent: str) -> str:
    """
    Name browser and system, as in "Firefox 145 on Linux".

    Without the extra ``browsers``, which brings ua-parser, and where it knows no such browser, it is ``user_agent``
    as it came.
    """
    try:
        from ua_parser import parse
    except ImportError:
        return user_agent
    known = parse(user_agent)
    if known.user_agent is None:
        return user_agent
    browser = " ".join(filter(None, (known.user_agent.family, known.user_agent.major)))
    if known.os is None:
        return browser
    return gettext("%(browser)s on %(system)s") % {"browser": browser, "system": known.os.family}


def when(at: datetime) -> SafeString:
    """Tell how long ago, or in how long, ``at`` is, and exactly when on hover: an element of HTML."""
    now = timezone.now()
    if abs(now - at) < timedelta(minutes=1):
        text = gettext("just now") if at <= now else gettext("in less than a minute")
    elif at < now:
        text = gettext("%(time)s ago") % {"time": _days(now - at) or timesince(at, now, depth=1)}
    else:
        text = gettext("in %(time)s") % {"time": _days(at - now) or timeuntil(at, now, depth=1)}
    local = timezone.localtime(at)
    return format_html('<time datetime="{}" title="{}">{}</time>', local.isoformat(), exactly(at), text)


def _days(time: timedelta) -> str:
    # Django would call thirteen days one week.
    return ngettext("%(num)d day", "%(num)d days", time.days) % {"num": time.days} if 2 <= time.days < 60 else ""


def exactly(at: datetime) -> str:
    """Write ``at`` with date, time of day, and the current time zone."""
    local = timezone.localtime(at)
    return f"{date_format(local, 'DATETIME_FORMAT')} {local.tzname()}"


def printable(text: str) -> str:
    """Return ``text`` as a terminal can be sent it: what somebody else wrote must not act on it."""
    return text if text.isprintable() else ascii(text)
