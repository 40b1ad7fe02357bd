"""
The commands, and what several of them share: users by name, questions and lines on a terminal, tables, batches.

A command parses its options, calls ``online``, ``cleaning`` or the querysets, and prints the result. It does not send
Redis commands itself.
"""
