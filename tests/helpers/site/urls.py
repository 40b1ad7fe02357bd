"""The URLs of the site. Where none of them fits, the shop answers."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.urls import include, path

from tests.helpers.site import views

urlpatterns = [
    path("plain/", views.plain),
    path("who/", views.who),
    path("who-elsewhere/", views.who),
    path("user-id/", views.user_id),
    path("deferred/", views.deferred),
    path("condition/", views.condition),
    path("swallowed/", views.swallowed),
    path("fails-by-it/", views.fails_by_it),
    path("passive/", views.passive_who),
    path("stream/<key>/", views.stream),
    path("read/<key>/", views.read),
    path("late/", views.late),
    path("waits/", views.waits),
    path("fails/", views.fails),
    path("answers-500/", views.answers_500),
    path("form/", views.form),
    path("write/<key>/<value>/", views.write),
    path("nest/<int:depth>/", views.nest),
    path("write-and-save/<key>/<value>/", views.write_and_save),
    path("write-and-swallow/<key>/<value>/", views.write_and_swallow),
    path("swap/<key>/<value>/", views.swap),
    path("synchronous/", views.synchronous),
    path("cycle/", views.cycle),
    path("edit/<how>/", views.edits),
    path("sign-in/<names>/", views.sign_in),
    path("sign-in-by-form/", views.sign_in_by_form),
    path("sign-out/", views.sign_out),
    path("who-and-messages/", views.who_and_messages),
    path("shows/", views.shows),
    path("shows-first/", views.shows_first),
    path("asks/", views.asks),
    path("async/plain/", views.aplain),
    path("async/who/", views.awho),
    path("async/user-id/", views.auser_id),
    path("async/read/<key>/", views.aread),
    path("async/fails/", views.afails),
    path("async/write/<key>/<value>/", views.awrite),
    path("async/nest/<int:depth>/", views.anest),
    path("async/write-and-save/<key>/<value>/", views.awrite_and_save),
    path("async/both/", views.aboth),
    path("async/cycle/", views.acycle),
    path("async/sign-in/<names>/", login_not_required(views.asign_in)),
    path("async/sign-out/", views.asign_out),
    path("async/shows/", views.ashows),
    path("async/asks/", views.aasks),
    path("items/", include("tests.helpers.site.items")),
    path("", include("tests.helpers.site.ends")),
    path("", include("tests.helpers.site.held")),
    path("", include("tests.helpers.site.accounts")),
    path("", include("testproject.urls")),
]


def handler403(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Do without the shop's page, which needs settings of the shop. So do the others."""
    return HttpResponse(str(exception), status=403)


def handler404(request: HttpRequest, exception: Exception) -> HttpResponse:
    return HttpResponse(status=404)


def handler500(request: HttpRequest) -> HttpResponse:
    return HttpResponse(status=500)
