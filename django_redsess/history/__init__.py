"""
What remains of a session: an app that keeps one row for each sign-in in the site's database.

Add ``"django_redsess.history"`` to ``INSTALLED_APPS`` and migrate. Without it nothing is written.
"""
