from importlib.util import find_spec

from django.apps import apps
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView, PasswordChangeDoneView, PasswordChangeView
from django.templatetags.static import static
from django.urls import include, path
from django.views.generic import RedirectView

from django_redsess.accounts.forms import SessionLimitAuthenticationForm
from django_redsess.contrib import api, readiness
from django_redsess.contrib.prometheus import views

urlpatterns = [
    path("admin/", admin.site.urls),
    path("login/", LoginView.as_view(authentication_form=SessionLimitAuthenticationForm), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    # Templates of their own names: the admin's have the usual ones.
    path(
        "account/password/",
        PasswordChangeView.as_view(template_name="shop/password_change.html"),
        name="password_change",
    ),
    path(
        "account/password/done/",
        PasswordChangeDoneView.as_view(template_name="shop/password_change_done.html"),
        name="password_change_done",
    ),
    path("account/sessions/", include("django_redsess.accounts.urls")),
    path("api/", api.urls()),
    path("ready", readiness.ready),
    # Browsers ask for it on the pages of the admin.
    path("favicon.ico", RedirectView.as_view(url=static("shop/kite.svg"))),
    path("", include("testproject.shop.urls")),
]

if find_spec("prometheus_client"):
    urlpatterns.append(path("metrics", views.metrics))

if apps.is_installed("django_redsess.contrib.device_bound"):
    urlpatterns.append(path("device-bound/", include("django_redsess.contrib.device_bound.urls")))

if "MOVE_FROM" in settings.REDSESS:
    urlpatterns.append(path("", include("testproject.shop.moving")))
