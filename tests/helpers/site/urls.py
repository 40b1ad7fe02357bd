"""The URLs of the site. Where none of them fits, the shop answers."""

from django.http import HttpRequest, HttpResponse
from django.urls import include, path

from django_redsess.contrib.device_bound.views import well_known
from tests.helpers.both import paths
from tests.helpers.site import views

urlpatterns = [
    *paths("plain/", views.plain),
    *paths("who/", views.who),
    path("who-elsewhere/", views.who),
    *paths("user-id/", views.user_id),
    path("deferred/", views.deferred),
    path("condition/", views.condition),
    path("swallowed/", views.swallowed),
    path("fails-by-it/", views.fails_by_it),
    path("passive/", views.passive_who),
    path("stream/<key>/", views.stream),
    *paths("read/<key>/", views.read),
    path("late/", views.late),
    path("waits/", views.waits),
    *paths("fails/", views.fails),
    path("answers-500/", views.answers_500),
    path("form/", views.form),
    *paths("write/<key>/<value>/", views.write),
    *paths("nest/<int:depth>/", views.nest),
    *paths("write-and-save/<key>/<value>/", views.write_and_save),
    path("write-and-swallow/<key>/<value>/", views.write_and_swallow),
    path("swap/<key>/<value>/", views.swap),
    path("synchronous/", views.synchronous),
    path("async/both/", views.aboth),
    *paths("cycle/", views.cycle),
    path("edit/<how>/", views.edits),
    *paths("sign-in/<names>/", views.sign_in),
    path("sign-in-by-form/", views.sign_in_by_form),
    *paths("sign-out/", views.sign_out),
    path("who-and-messages/", views.who_and_messages),
    *paths("shows/", views.shows),
    path("shows-first/", views.shows_first),
    *paths("asks/", views.asks),
    path("items/", include("tests.helpers.site.items")),
    path("", include("tests.helpers.site.ends")),
    path("", include("tests.helpers.site.held")),
    path("locks/", include("tests.helpers.site.locks")),
    path("", include("tests.helpers.site.accounts")),
    # Only with the app, they do something.
    path("device-bound/", include("django_redsess.contrib.device_bound.urls")),
    path(".well-known/device-bound-sessions", well_known),
    path("", include("testproject.urls")),
]


def handler403(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Do without the shop's page, which needs settings of the shop. So do the others."""
    return HttpResponse(str(exception), status=403)


def handler404(request: HttpRequest, exception: Exception) -> HttpResponse:
    return HttpResponse(status=404)


def handler500(request: HttpRequest) -> HttpResponse:
    return HttpResponse(status=500)
