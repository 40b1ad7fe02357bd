"""
One session: its record, its deadline, and how it is loaded, saved, moved and ended.

``SessionStore`` in :mod:`django_redsess.backend` is the public face of this room. The room may import ``transport``,
which sends its commands, and ``conf``, ``signals`` and ``exceptions``. It may not import ``online`` or ``viewed``.
"""
