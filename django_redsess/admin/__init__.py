"""The admin pages. Public."""

from django_redsess.admin.items import PopularItemAdmin
from django_redsess.admin.sessions import OnlineSessionAdmin

__all__ = ["OnlineSessionAdmin", "PopularItemAdmin"]
