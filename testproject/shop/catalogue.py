"""The products of the shop: kites."""

from decimal import Decimal
from typing import NamedTuple

from django.utils.text import slugify

from testproject.shop.models import Product

Shape, Palette, Wind = Product.Shape, Product.Palette, Product.Wind


class Entry(NamedTuple):
    name: str
    price: Decimal
    shape: Product.Shape
    palette: Product.Palette
    wind: Product.Wind
    description: str


# fmt: off
CATALOGUE = [
    Entry("First Thursday", Decimal(18), Shape.DIAMOND, Palette.POPPY, Wind.GENTLE,
          "The red diamond everyone draws when asked to draw a kite, made so that it also flies."),
    Entry("Slow Heron", Decimal(64), Shape.DELTA, Palette.LAGOON, Wind.LIGHT,
          "A wide, patient delta that climbs on air you would not have called a wind."),
    Entry("Lantern Festival", Decimal(58), Shape.ROKKAKU, Palette.HARVEST, Wind.GENTLE,
          "Six corners, one line and the steady glow of a paper lamp in a late sky."),
    Entry("Letter Home", Decimal(32), Shape.SLED, Palette.PLUM, Wind.GENTLE,
          "Folds flat into an envelope, unfolds in a breath, and comes with the stamp."),
    Entry("Hundred Coins", Decimal(85), Shape.CENTIPEDE, Palette.MIDNIGHT, Wind.MODERATE,
          "A train of bright discs that rolls through the air one after the other."),
    Entry("Farmyard Gate", Decimal(36), Shape.BARN_DOOR, Palette.MEADOW, Wind.MODERATE,
          "Three sticks and a broad sail, as flown over stubble fields for a hundred autumns."),
    Entry("Night Ferry", Decimal(72), Shape.DELTA, Palette.MIDNIGHT, Wind.MODERATE,
          "Dark blue with a lit stern, and happiest over water after supper."),
    Entry("Marmalade", Decimal(22), Shape.DIAMOND, Palette.HARVEST, Wind.LIGHT,
          "A small, thick-cut diamond for breakfast flights in the park."),
    Entry("Old Argument", Decimal(66), Shape.ROKKAKU, Palette.POPPY, Wind.FRESH,
          "A fighter by descent that still likes to cut in, and mostly wins."),
    Entry("Rock Pool", Decimal(28), Shape.SLED, Palette.LAGOON, Wind.GENTLE,
          "No sticks at all, so it can be stuffed in a coat pocket with the shells."),
    Entry("Caterpillar Post", Decimal(79), Shape.CENTIPEDE, Palette.MEADOW, Wind.GENTLE,
          "Four green discs on one line, each a little later than the one before."),
    Entry("Plum Thief", Decimal(26), Shape.DIAMOND, Palette.PLUM, Wind.MODERATE,
          "Quick over the wall and away, with a tail to balance a guilty conscience."),
    Entry("Harbour Master", Decimal(54), Shape.BARN_DOOR, Palette.LAGOON, Wind.FRESH,
          "Built square for strong wind, and not to be hurried by it."),
    Entry("Swift in June", Decimal(48), Shape.DELTA, Palette.PLUM, Wind.GENTLE,
          "Turns on a wingtip and comes back to see whether you noticed."),
    Entry("Weather Vane", Decimal(24), Shape.SLED, Palette.POPPY, Wind.FRESH,
          "Goes up by itself, stays there, and shows where tomorrow comes from."),
    Entry("Tea at Altitude", Decimal(61), Shape.ROKKAKU, Palette.MEADOW, Wind.LIGHT,
          "So steady that you can tie it to the table and pour."),
    Entry("Paper Moon", Decimal(30), Shape.DIAMOND, Palette.MIDNIGHT, Wind.GENTLE,
          "A pale light for the hour when all other kites have gone home."),
    Entry("Orchard Ladder", Decimal(44), Shape.BARN_DOOR, Palette.HARVEST, Wind.GENTLE,
          "Climbs in even steps and leans against whatever wind there is."),
    Entry("Red Admiral", Decimal(69), Shape.DELTA, Palette.POPPY, Wind.MODERATE,
          "A butterfly of some rank, with a span of two metres and a crew of one."),
    Entry("Dragon in Training", Decimal(92), Shape.CENTIPEDE, Palette.POPPY, Wind.FRESH,
          "Not yet breathing fire, but already impossible to look away from."),
    Entry("Blue Hour", Decimal(38), Shape.SLED, Palette.MIDNIGHT, Wind.LIGHT,
          "A quiet sail for the last half hour in which there is still enough light."),
    Entry("Sunday Uncle", Decimal(42), Shape.BARN_DOOR, Palette.PLUM, Wind.MODERATE,
          "Large, kind and difficult to bring down once it has started."),
    Entry("Tide Table", Decimal(56), Shape.ROKKAKU, Palette.LAGOON, Wind.MODERATE,
          "Rises and falls by the clock on any beach with an onshore wind."),
    Entry("String of Pearls", Decimal(88), Shape.CENTIPEDE, Palette.PLUM, Wind.LIGHT,
          "The lightest train we make, for evenings when the smoke goes straight up."),
]
# fmt: on


def load_catalogue() -> None:
    """Create or update the products of the catalogue. Other products stay as they are."""
    Product.objects.bulk_create(
        [Product(slug=slugify(entry.name), **entry._asdict()) for entry in CATALOGUE],
        update_conflicts=True,
        unique_fields=["slug"],
        update_fields=Entry._fields,
    )
