"""
What the commands run: ending sessions that are due or too many, forgetting items, and comparing all keys.

The work is done batch by batch, so that the server serves others in between. This room imports ``online``, ``viewed``,
``session`` and ``transport``; ``management`` and ``backend`` import it.
"""
