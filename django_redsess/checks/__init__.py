"""
System checks: a wrong setting is reported at start, with a hint, and not by a visitor's first request.

``settings`` checks what Django's settings say, by the rules for ours, and the site's models. ``encryption`` is about
what encrypts sessions. ``cache`` checks the entry of CACHES that sessions use. ``server`` asks each server, and
``cluster`` compares the nodes of a cluster. ``moving`` is about sessions that come from another store. ``admin`` is
about what the JSON API asks of the admin. ``asvs`` names what is missing for a level of OWASP's standard.
"""

from django_redsess.checks import admin, asvs, cache, cluster, encryption, moving, server, settings

__all__ = ["admin", "asvs", "cache", "cluster", "encryption", "moving", "server", "settings"]
