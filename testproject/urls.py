from importlib.util import find_spec

from django.conf import settings
from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path

from django_redsess.accounts.forms import SessionLimitAuthenticationForm
from django_redsess.contrib import api, readiness
from django_redsess.contrib.prometheus import views

urlpatterns = [
    path("admin/", admin.site.urls),
    path("login/", LoginView.as_view(authentication_form=SessionLimitAuthenticationForm), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("account/sessions/", include("django_redsess.accounts.urls")),
    path("api/", api.urls()),
    path("ready", readiness.ready),
    path("", include("testproject.shop.urls")),
]

if find_spec("prometheus_client"):
    urlpatterns.append(path("metrics", views.metrics))

if "MOVE_FROM" in settings.REDSESS:
    urlpatterns.append(path("", include("testproject.shop.moving")))
