"""
What a session is, and what becomes of it: its record, its deadline, and how it is loaded, saved, moved and ended.

``SessionStore`` in :mod:`django_redsess.backend` is the public face of this room. It may import ``transport``, which
sends what is asked here, and ``conf``, ``signals`` and ``exceptions``; it knows nothing of lists of sessions or of what
is viewed.
"""
