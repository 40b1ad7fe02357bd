"""Make the pictures of the documentation: ``make screenshots``, or ``python -m tests.helpers.screenshots [FOLDER]``."""
