"""
The view that shows metrics to Prometheus. Public.

It needs the extra ``prometheus``. It does not read, touch or open the session of the request.
"""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

__all__ = ["metrics"]


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
    # prometheus_client may be missing: then this view fails, and not the site's URLs.
    from django_redsess.contrib.prometheus import metrics_page

    page, content_type = metrics_page.metrics_page(request.headers.get("Accept", ""))
    return HttpResponse(page, content_type=content_type)
