"""
The shop over https for browsers whose sessions are bound to the device; beside it, another site of another host.

``urls`` has the pages of both. ``serving`` is the process: ``python -m tests.helpers.site.device_bound.serving``.
"""

from typing import Any


def is_required(user: Any) -> bool:
    return bool(user.is_staff)
