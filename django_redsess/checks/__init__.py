"""
System checks: a wrong setting is reported at start, with a hint, and not by a visitor's first request.

``settings`` checks what Django's settings say, by the ``rules`` for ours. ``server`` checks the entry of CACHES that
sessions use, ``relations`` the site's models. ``nodes`` asks the server, and ``refusals`` says why it is of no use.
``sentinel`` asks a master behind Sentinel about its replicas, ``cluster`` what the nodes of a cluster have to agree on,
and ``agreement`` whether the store suits this site. ``tenants`` looks for several tables of users. They import the
public modules and ``transport``, and nothing imports them but ``apps``.
"""

from django_redsess.checks import agreement, cluster, nodes, relations, sentinel, server, settings, tenants

__all__ = ["agreement", "cluster", "nodes", "relations", "sentinel", "server", "settings", "tenants"]
