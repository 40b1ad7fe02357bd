"""
The admin pages: who is signed in, ending sessions, and which items are viewed most. Public.

The classes in ``__all__`` are for sites that register the pages themselves. All other names are private. These modules
show what ``querysets``, ``online`` and ``viewed`` return, and send nothing to the server by themselves.
"""

from django_redsess.admin.sessions import OnlineSessionAdmin
from django_redsess.admin.users_sessions import UserSessionsMixin
from django_redsess.admin.viewed_items import PopularItemAdmin

__all__ = ["OnlineSessionAdmin", "PopularItemAdmin", "UserSessionsMixin"]
