"""Addresses of the documentation, for links in messages, in ``--help`` and in answers of the API."""

SITE = "https://django-redsess.readthedocs.io/en/latest/"


def page_url(page: str, anchor: str = "") -> str:
    """Return the address of a page, such as ``howto/install``, at its section ``anchor``."""
    return f"{SITE}{page}.html" + (f"#{anchor}" if anchor else "")
