"""The URLs of the JSON API: ``path("api/", include("django_redsess.contrib.api.urls"))``. Public."""

from django.apps import apps
from django.urls import path, re_path, register_converter
from django.urls.converters import PathConverter

from django_redsess.contrib.api import endpoints, openapi, own


class UserIdConverter(PathConverter):
    """Any text: a user's primary key may have slashes, and line breaks, which Django's ``path`` does not take."""

    regex = "(?s:.+)"


register_converter(UserIdConverter, "redsess_user_id")

app_name = "django_redsess_api"
urlpatterns = [
    path("v1/", openapi.page, name="page"),
    path("v1/openapi.json", openapi.document, name="openapi"),
    path("v1/me/sessions", own.sessions, name="own-sessions"),
    path("v1/me/sessions/<str:sid>", own.session, name="own-session"),
    path("v1/me/reauthenticate", own.password, name="reauthenticate"),
]

if apps.is_installed("django.contrib.admin"):
    # Its rules hold for these. A site without it has no administrators.
    from django_redsess.contrib.api import administration

    urlpatterns += [
        path("v1/sessions", administration.sessions, name="sessions"),
        path("v1/sessions/end", administration.ends, name="end"),
        path("v1/sessions/<str:sid>", administration.session, name="session"),
        path("v1/users/<redsess_user_id:user_id>/sessions", administration.user_sessions, name="user-sessions"),
        path("v1/users/<redsess_user_id:user_id>/block", administration.user_block, name="user-block"),
        path("v1/counts", administration.counts, name="counts"),
    ]
    if apps.is_installed("django_redsess.contrib.history"):
        from django_redsess.contrib.api import sign_ins

        urlpatterns.append(path("v1/history", sign_ins.sign_ins, name="history"))

urlpatterns.append(re_path(r"^v1/", endpoints.unknown))
