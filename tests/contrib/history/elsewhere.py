"""A database of their own for sign-ins, as a site may have it by a router."""

from django_redsess.contrib.history.models import BlockCopy, SignIn

ALIAS = "sign_ins"


class Router:
    """Sign-ins and copies of blocks are in a database of their own, and nothing else is."""

    def db_for_read(self, model: type, **hints: object) -> str | None:
        return ALIAS if model in (SignIn, BlockCopy) else None

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **hints: object) -> bool | None:
        return app_label == "redsess_history" if db == ALIAS else None
