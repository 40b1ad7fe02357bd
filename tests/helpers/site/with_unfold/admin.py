"""What docs/howto/admin-pages.rst says a site with django-unfold writes."""

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from unfold.admin import ModelAdmin

from django_redsess.admin import OnlineSessionAdmin, PopularItemAdmin, UserSessionsMixin
from django_redsess.contrib.history.admin import SignInAdmin
from django_redsess.contrib.history.models import SignIn
from django_redsess.models import OnlineSession, PopularItem

admin.site.unregister([OnlineSession, PopularItem, SignIn, User])


@admin.register(OnlineSession)
class OnlineSessions(OnlineSessionAdmin, ModelAdmin):
    pass


@admin.register(PopularItem)
class MostViewed(PopularItemAdmin, ModelAdmin):
    pass


@admin.register(SignIn)
class SignIns(SignInAdmin, ModelAdmin):
    pass


@admin.register(User)
class Users(UserSessionsMixin, UserAdmin, ModelAdmin):
    pass
