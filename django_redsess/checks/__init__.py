"""
System checks: a wrong setting is reported at start, with a hint, and not by a visitor's first request.

``settings`` checks what Django's settings say. ``server`` checks the entry of CACHES that sessions use, and asks the
server behind it; ``sentinel`` asks a master behind Sentinel about its replicas. They import the public modules and
``transport``, and nothing imports them but ``apps``.
"""

from django_redsess.checks import sentinel, server, settings

__all__ = ["sentinel", "server", "settings"]
