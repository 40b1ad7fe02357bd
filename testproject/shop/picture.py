"""Draw a kite for each product, from its shape and palette; its slug decides everything else."""

import hashlib
from dataclasses import dataclass

from testproject.shop.models import Product


@dataclass(frozen=True)
class Kite:
    """The parts of a kite as SVG path data, with the centre at 0,0."""

    outline: str
    panels: str
    spars: str
    tails: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Colours:
    sail: str
    trim: str
    accent: str
    sky: str
    night: str


SHAPES = {
    Product.Shape.DIAMOND: Kite(
        outline="M0-96L72-30L0 98L-72-30Z",
        panels="M0-96L72-30H0ZM0 98L-72-30H0Z",
        spars="M0-96V98M-72-30H72",
        tails=((0, 98),),
    ),
    Product.Shape.DELTA: Kite(
        outline="M0-84L124 46Q84 26 44 34L0 76L-44 34Q-84 26-124 46Z",
        panels="M0-84L44 34L0 76ZM0-84L-124 46Q-84 26-44 34Z",
        spars="M0-84V76M-44 34L0-84L44 34M-62-19H62",
        tails=((-44, 34), (0, 76), (44, 34)),
    ),
    Product.Shape.ROKKAKU: Kite(
        outline="M0-100L68-54V50L0 98L-68 50V-54Z",
        panels="M0-100L68-54H-68ZM68 50L0 98L-68 50Z",
        spars="M0-100V98M-68-54H68M-68 50H68",
        tails=((-68, 50), (68, 50)),
    ),
    Product.Shape.BARN_DOOR: Kite(
        outline="M-52-92H52L86-24L34 92H-34L-86-24Z",
        panels="M-52-92H52L11-24H-11ZM-34 92L-11-24H11L34 92Z",
        spars="M-52-92L34 92M52-92L-34 92M-86-24H86",
        tails=((-34, 92), (34, 92)),
    ),
    Product.Shape.SLED: Kite(
        outline="M-48-88H48L94-20L48 80H-48L-94-20Z",
        panels="M-48-88L-94-20L-48 80ZM48-88L94-20L48 80Z",
        spars="M-48-88V80M48-88V80M-24 8L-10 58H-38ZM24 8L38 58H10Z",
        tails=((-48, 80), (48, 80)),
    ),
    Product.Shape.CENTIPEDE: Kite(
        outline=(
            "M-112-68a50 50 0 1 0 100 0a50 50 0 1 0-100 0ZM-16-10a34 34 0 1 0 68 0a34 34 0 1 0-68 0Z"
            "M36 40a26 26 0 1 0 52 0a26 26 0 1 0-52 0ZM66 88a19 19 0 1 0 38 0a19 19 0 1 0-38 0Z"
        ),
        panels="M-62-118a50 50 0 0 1 0 100ZM18-44a34 34 0 0 1 0 68ZM62 14a26 26 0 0 1 0 52ZM85 69a19 19 0 0 1 0 38Z",
        spars="M-112-68H-12M-16-10H52M36 40H88M66 88H104M-24-36L-8-32M42 14L44 22M76 62L78 70",
        tails=((85, 107),),
    ),
}

PALETTES = {
    Product.Palette.POPPY: Colours("#d9482f", "#f3e3c7", "#2b3a55", "#dbe8ec", "#3a2c30"),
    Product.Palette.LAGOON: Colours("#1f7f8c", "#f6d78b", "#e8674a", "#e4eee6", "#1d3238"),
    Product.Palette.HARVEST: Colours("#e0a02e", "#8d3b22", "#fbf1dc", "#dfe7f0", "#2a2f40"),
    Product.Palette.PLUM: Colours("#7b3f6b", "#f0b7a4", "#f4dfa3", "#ece5ee", "#30283b"),
    Product.Palette.MEADOW: Colours("#5f8f4a", "#f4ecd0", "#d9772f", "#e3edf2", "#22323a"),
    Product.Palette.MIDNIGHT: Colours("#2d4373", "#e9c46a", "#e9edf2", "#f0e7dc", "#33303f"),
}

# Patterns on the sail, clipped to its outline.
PATTERNS = (
    "M-130-24H130V2H-130ZM-130 16H130V26H-130Z",
    "M-34-24a34 34 0 1 0 68 0a34 34 0 1 0-68 0ZM-18-24a18 18 0 1 1 36 0a18 18 0 1 1-36 0Z",
    "M-130-40L0 22L130-40V-8L0 54L-130-8Z",
    "M-130 30L130-70V-44L-130 56ZM-130 74L130-26V-14L-130 86Z",
    "M-14-130H14V130H-14Z",
)


def drawing(product: Product) -> dict[str, object]:
    """Return the context of ``shop/picture.svg``."""
    digits = hashlib.blake2b(product.slug.encode(), digest_size=8).digest()
    shape = Product.Shape(product.shape or Product.Shape.values[digits[0] % len(SHAPES)])
    palette = Product.Palette(product.palette or Product.Palette.values[digits[1] % len(PALETTES)])
    return {
        "kite": SHAPES[shape],
        "colours": PALETTES[palette],
        "pattern": PATTERNS[digits[2] % len(PATTERNS)],
        "tilt": digits[3] % 37 - 18,
        "sway": -1 if digits[4] % 2 else 1,
        "clouds": [(40 + digits[5] % 70, 70 + digits[6] % 50), (270 + digits[6] % 50, 40 + digits[5] % 80)],
        "hill": digits[7] % 60,
    }
