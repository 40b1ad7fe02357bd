"""Naming the browser and the system behind a user agent."""

from __future__ import annotations

from django.utils.translation import gettext


def describe(user_agent: str) -> str:
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
