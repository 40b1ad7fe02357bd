"""
System checks: a wrong setting is reported at start, with a hint, and not by a visitor's first request.

``settings`` checks what Django's settings say, by the rules for ours, and the site's models. ``server`` checks the
entry of CACHES that sessions use, whether the store suits this site, and a master behind Sentinel. ``cluster`` asks
the server, or the nodes of a cluster.
"""

from django_redsess.checks import cluster, server, settings
from django_redsess.checks import cluster as nodes
from django_redsess.checks import server as agreement
from django_redsess.checks import server as sentinel
from django_redsess.checks import settings as relations
from django_redsess.checks import settings as tenants

__all__ = ["agreement", "cluster", "nodes", "relations", "sentinel", "server", "settings", "tenants"]
