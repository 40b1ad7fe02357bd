from django.contrib import admin

from testproject.shop.models import Product


@admin.register(Product)
class ProductAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    list_display = ["name", "slug", "price", "shape", "palette", "wind"]
    list_filter = ["shape", "palette", "wind"]
    search_fields = ["name", "slug"]
    prepopulated_fields = {"slug": ["name"]}
