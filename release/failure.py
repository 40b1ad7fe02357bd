"""What stops a release."""


class ReleaseError(Exception):
    """A release can't be made. The message says why, and what to do next."""
