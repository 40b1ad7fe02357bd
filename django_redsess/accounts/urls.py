"""The URLs of self-service: ``path("account/sessions/", include("django_redsess.accounts.urls"))``. Public."""

from django.urls import path

from django_redsess.accounts import views

app_name = "django_redsess"
urlpatterns = [
    path("", views.sessions, name="sessions"),
    path("end-others/", views.end_others, name="end_others"),
    path("not-me/", views.not_me, name="not_me"),
    path("<str:sid>/end/", views.end, name="end"),
]
