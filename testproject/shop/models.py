from collections.abc import Collection
from decimal import Decimal

from django.db import models
from django.urls import reverse
from django.utils.translation import gettext_lazy as _


class Product(models.Model):
    class Shape(models.TextChoices):
        DIAMOND = "diamond", _("Diamond")
        DELTA = "delta", _("Delta")
        ROKKAKU = "rokkaku", _("Rokkaku")
        BARN_DOOR = "barn-door", _("Barn door")
        SLED = "sled", _("Sled")
        CENTIPEDE = "centipede", _("Centipede")

    class Palette(models.TextChoices):
        POPPY = "poppy", _("Poppy")
        LAGOON = "lagoon", _("Lagoon")
        HARVEST = "harvest", _("Harvest")
        PLUM = "plum", _("Plum")
        MEADOW = "meadow", _("Meadow")
        MIDNIGHT = "midnight", _("Midnight")

    class Wind(models.IntegerChoices):
        """Forces of the Beaufort scale."""

        LIGHT = 2, _("light breeze")
        GENTLE = 3, _("gentle breeze")
        MODERATE = 4, _("moderate breeze")
        FRESH = 5, _("fresh breeze")

    slug = models.SlugField(max_length=64, unique=True)
    name = models.CharField(max_length=120)
    description = models.TextField(blank=True, default="")
    price = models.DecimalField(max_digits=8, decimal_places=2, default=Decimal("24.00"))
    shape = models.CharField(max_length=16, choices=Shape, blank=True, default="", help_text="Empty: by the slug.")
    palette = models.CharField(max_length=16, choices=Palette, blank=True, default="", help_text="Empty: by the slug.")
    wind = models.PositiveSmallIntegerField(choices=Wind, default=Wind.GENTLE)

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("shop:product", args=[self.slug])


def products_by_slug(slugs: Collection[str]) -> dict[str, Product]:
    """Return the products with these slugs, by slug; unknown slugs are left out. This is VIEWED_RESOLVE."""
    return Product.objects.in_bulk(slugs, field_name="slug")
