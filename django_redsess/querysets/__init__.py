"""
True QuerySets whose rows are read from Redis, so that Django's admin works with them as with those of a table.

They offer filters, orders and slices that the server answers quickly, and raise NotSupportedError for all others. They
import ``online`` and ``viewed``, and know no page.
"""
