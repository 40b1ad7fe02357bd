"""The URLs of self-service: ``path("account/sessions/", include("django_redsess.accounts.urls"))``. Public."""

from django.urls import path

from django_redsess.accounts import views

app_name = "django_redsess"
urlpatterns = [
    path("", views.own_sessions_view, name="sessions"),
    path("end-others/", views.end_others_view, name="end_others"),
    path("not-me/", views.not_me_view, name="not_me"),
    path("<str:sid>/end/", views.end_own_view, name="end"),
    path("<str:sid>/not-me/", views.not_me_device_view, name="not_me_device"),
]
