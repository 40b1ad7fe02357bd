from collections.abc import Collection
from decimal import Decimal

from django.db import models
from django.urls import reverse


class Product(models.Model):
    class Shape(models.TextChoices):
        DIAMOND = "diamond", "Diamond"
        DELTA = "delta", "Delta"
        ROKKAKU = "rokkaku", "Rokkaku"
        BARN_DOOR = "barn-door", "Barn door"
        SLED = "sled", "Sled"
        CENTIPEDE = "centipede", "Centipede"

    class Palette(models.TextChoices):
        POPPY = "poppy", "Poppy"
        LAGOON = "lagoon", "Lagoon"
        HARVEST = "harvest", "Harvest"
        PLUM = "plum", "Plum"
        MEADOW = "meadow", "Meadow"
        MIDNIGHT = "midnight", "Midnight"

    class Wind(models.IntegerChoices):
        """Forces of the Beaufort scale."""

        LIGHT = 2, "light breeze"
        GENTLE = 3, "gentle breeze"
        MODERATE = 4, "moderate breeze"
        FRESH = 5, "fresh breeze"

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
