"""
The history of sign-ins: an app that keeps one row for each sign-in in the site's database.

Add ``"django_redsess.contrib.history"`` to ``INSTALLED_APPS`` and migrate. Without it nothing is written.
"""

from django_redsess.contrib.history.database import losses

__all__ = ["lost"]


def lost() -> int:
    """
    Return how many rows this process failed to write since it started. ``manage.py history --repair`` writes them.

    Rows that were skipped in the ten seconds after a failure count, too.
    """
    return losses.total
