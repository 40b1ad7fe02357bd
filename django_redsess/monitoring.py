"""
Views for programs that watch over a site: :func:`ready` and :func:`metrics`. Public.

Neither reads, touches or opens the session of who asks. ``metrics`` needs the extra ``prometheus``.
"""

from __future__ import annotations

from asgiref.sync import async_to_sync
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import ImproperlyConfigured
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from redis.exceptions import RedisError

from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.middleware import not_logged
from django_redsess.observers.failures import failure_of
from django_redsess.session import script_calls
from django_redsess.transport.round_trips import adrive, drive

__all__ = ["metrics", "ready"]


@login_not_required
@require_safe
@never_cache
def ready(request: HttpRequest) -> HttpResponse:
    """
    Tell whether sessions can be read and written now: 200 if so, 503 if not.

    The answer is JSON: ``{"ready": true}``, or ``{"ready": false, "cause": "…"}``. The cause is a word and names no
    address: ``timeout``, ``unreachable``, ``forbidden``, ``full``, ``read_only``, ``no_replicas``, ``refused``, or
    ``error`` if the settings don't suit the store. Each server is asked in one round trip what a load asks, for a
    session that does not exist, and whether a save and a new session would be allowed. So nothing changes. Under ASGI,
    that is asked on the connections of the event loop. The first server that fails ends the question, so the answer
    takes as long as a request would.
    """
    try:
        if isinstance(request, ASGIRequest):
            async_to_sync(adrive)(script_calls.probe())
        else:
            drive(script_calls.probe())
    except (SessionStoreUnavailable, ImproperlyConfigured, RedisError) as error:
        return not_logged(JsonResponse({"ready": False, "cause": failure_of(error).outcome}, status=503))
    return JsonResponse({"ready": True})


@login_not_required
@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """
    Show metrics as Prometheus reads them: what observers have counted, and the numbers of the store.

    If the environment has ``PROMETHEUS_MULTIPROC_DIR``, it shows what the observers of all processes have counted. The
    store is asked at most once in ten seconds by each process. In an outage, ``redsess_up`` is 0, and the numbers of
    the store are left out. Other metrics of the site are not shown.
    """
    # It needs the extra, and ready() does not.
    from django_redsess import exposition

    page, content_type = exposition.page(request.headers.get("Accept", ""))
    return HttpResponse(page, content_type=content_type)
