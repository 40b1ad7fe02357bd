from importlib.util import find_spec

from django.conf import settings
from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path

from django_redsess import monitoring
from django_redsess.forms import SessionLimitAuthenticationForm

urlpatterns = [
    path("admin/", admin.site.urls),
    path("login/", LoginView.as_view(authentication_form=SessionLimitAuthenticationForm), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("account/sessions/", include("django_redsess.urls")),
    path("api/", include("django_redsess.api.urls")),
    path("ready", monitoring.ready),
    path("", include("testproject.shop.urls")),
]

if find_spec("prometheus_client"):
    urlpatterns.append(path("metrics", monitoring.metrics))

if "MOVE_FROM" in settings.REDSESS:
    urlpatterns.append(path("", include("testproject.shop.moving")))
