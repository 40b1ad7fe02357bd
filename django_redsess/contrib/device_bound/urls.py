"""The URLs of the two endpoints. Include them anywhere: browsers are told the addresses."""

from django.urls import path

from django_redsess.contrib.device_bound import views

app_name = "redsess_device_bound"

urlpatterns = [
    path("register", views.register, name="register"),
    path("refresh", views.refresh, name="refresh"),
]
