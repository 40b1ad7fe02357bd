"""
One round trip to the server that holds the sessions: names of keys, sending, retries, and what is an outage.

Everything that threads and event loops do alike is written once, as steps, and taken by one of two drivers. Private.
"""
