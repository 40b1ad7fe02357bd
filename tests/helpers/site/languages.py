"""URLs that begin with the language of the page."""

from django.conf.urls.i18n import i18n_patterns
from django.contrib.auth.views import LoginView
from django.urls import include, path

urlpatterns = i18n_patterns(
    path("login/", LoginView.as_view(), name="login"),
    path("account/sessions/", include("django_redsess.accounts.urls")),
)
