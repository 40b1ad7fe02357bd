"""
The session's part in a response: the save at the end, the cookie, the notice, and the 503 in an outage.

This room is private; :mod:`django_redsess.middleware` is its public face. It may import ``viewed`` and ``session``, the
layers below them, and Django's requests and responses.
"""
