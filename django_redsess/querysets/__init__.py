"""
QuerySets whose rows are read from Redis, so that Django's admin can use them as it uses a table.

They support the filters, orders and slices that the server answers quickly. All others raise NotSupportedError. This
room may import ``online`` and ``viewed``, but not ``admin``. It is private; :mod:`django_redsess.models` is its public
face.
"""
