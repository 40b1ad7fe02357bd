from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User

from django_redsess.admin import UserSessionsMixin
from testproject.shop.forms import AdminSignInForm
from testproject.shop.models import Product

# A theme of the admin may have set a form of its own.
admin.site.login_form = admin.site.login_form or AdminSignInForm
admin.site.unregister(User)


@admin.register(User)
class ShopUserAdmin(UserSessionsMixin, UserAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    pass


@admin.register(Product)
class ProductAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    list_display = ["name", "slug", "price", "shape", "palette", "wind"]
    list_filter = ["shape", "palette", "wind"]
    search_fields = ["name", "slug"]
    prepopulated_fields = {"slug": ["name"]}
