"""
The view that tells load balancers and orchestrators whether this process can use its sessions. Public.

It does not read, touch or open the session of the request.
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
from django_redsess.observers.failures import failure_of
from django_redsess.responses import without_log
from django_redsess.session import reading
from django_redsess.transport.steps import adrive, drive

__all__ = ["ready"]


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
            async_to_sync(adrive)(reading.probe_servers())
        else:
            drive(reading.probe_servers())
    except (SessionStoreUnavailable, ImproperlyConfigured, RedisError) as error:
        return without_log(JsonResponse({"ready": False, "cause": failure_of(error).outcome}, status=503))
    return JsonResponse({"ready": True})
