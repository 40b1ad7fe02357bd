"""
The work of the cleaning commands: ending sessions that are due or too many, forgetting items, comparing all keys.

The work is done in batches, so that the server can serve others in between. This room imports ``online``, ``viewed``,
``session`` and ``transport``; ``management`` and ``backend`` import it.
"""
