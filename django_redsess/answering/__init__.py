"""
What a request's answer has to do with its session: saving it at the end, the cookie, the notice, the 503 of an outage.

The middleware in :mod:`django_redsess.middleware` is the public face of this room. It may import ``viewed`` and
``session``, what is below them, and Django's requests and responses.
"""
