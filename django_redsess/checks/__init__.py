"""
System checks: a wrong setting is reported at start, with a hint, and not by a visitor's first request.

``settings`` checks what Django's settings say, by the ``rules`` for ours. ``server`` checks the entry of CACHES that
sessions use. ``nodes`` asks the server behind it, ``sentinel`` a master behind Sentinel about its replicas, and
``cluster`` what the nodes of a cluster have to agree on. They import the public modules and ``transport``, and nothing
imports them but ``apps``.
"""

from django_redsess.checks import cluster, nodes, sentinel, server, settings

__all__ = ["cluster", "nodes", "sentinel", "server", "settings"]
