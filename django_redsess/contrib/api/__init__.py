"""The JSON API, on django-ninja: sessions for front ends and other programs. It needs the extra ``api``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django.urls import URLPattern, URLResolver

__all__ = ["urls"]


def urls(
    auth: Callable[..., Any] | Sequence[Callable[..., Any]] | None = None,
) -> tuple[list[URLPattern | URLResolver], str, str]:
    """
    Return the URLs of the API: ``path("api/", urls())``.

    ``auth`` authenticates requests without a signed-in session, as in django-ninja: an object of ``ninja.security``, a
    function of the request, or a list of these. Each returns a user, or None.

    Raises ImproperlyConfigured if django-ninja is not installed. A request raises it if ``auth`` returns anything else.
    """
    from django.core.exceptions import ImproperlyConfigured

    try:
        from django_redsess.contrib.api.endpoints import NAMESPACE, endpoints
    except ModuleNotFoundError as error:
        if error.name != "ninja":
            raise
        text = 'django_redsess.contrib.api needs django-ninja: pip install "django-redsess[api]".'
        raise ImproperlyConfigured(text) from error
    return endpoints(auth), NAMESPACE, NAMESPACE
