from django.contrib import admin
from django.contrib.auth.admin import UserAdmin

from django_redsess.admin import UserSessionsMixin
from tests.helpers.site.user_models.models import User


@admin.register(User)
class Users(UserSessionsMixin, UserAdmin):
    pass
