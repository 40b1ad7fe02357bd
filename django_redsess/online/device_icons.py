"""Small pictures of kinds of devices, as HTML: a phone, a tablet, a desktop."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import pgettext_lazy

from django_redsess.online.user_agents import device_kind_of

_NAMES: dict[str, Promise] = {
    "phone": pgettext_lazy("a device", "Phone"),
    "tablet": pgettext_lazy("a device", "Tablet"),
    "desktop": pgettext_lazy("a device", "Computer"),
}
# In a square of 16. Lines have the colour of the text beside them.
_SHAPES = {
    "phone": SafeString('<rect x="4.5" y="1.5" width="7" height="13" rx="1.5"/><path d="M7 12.5h2"/>'),
    "tablet": SafeString('<rect x="2.5" y="1.5" width="11" height="13" rx="1.5"/><path d="M7 12.5h2"/>'),
    "desktop": SafeString('<rect x="1.5" y="2.5" width="13" height="8.5" rx="1"/><path d="M8 11v2.5M5 13.5h6"/>'),
}


def device_icon(user_agent: str) -> SafeString:
    """Return a picture of the kind of device that ``user_agent`` names, as HTML. Nothing if it names none."""
    kind = device_kind_of(user_agent)
    if not kind:
        return SafeString()
    return format_html(
        '<svg class="redsess-device" role="img" aria-label="{}" width="16" height="16" viewBox="0 0 16 16" fill="none" '
        'stroke="currentColor">{}</svg> ',
        _NAMES[kind],
        _SHAPES[kind],
    )
