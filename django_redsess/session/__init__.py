"""
One session: its record, its deadline, and how it is loaded, saved, moved and ended.

``SessionStore`` in :mod:`django_redsess.backend` is the public name. Private.
"""
