"""
The public names of the package: ``names_file`` has the file of all, and each other module collects some kinds.

Nothing is imported here: ``python -m tests.helpers.public_names`` sets Django up first.
"""
