"""The ranking of the most viewed products."""

from typing import NamedTuple

from django_redsess import viewed
from testproject.shop.models import Product


class Ranked(NamedTuple):
    rank: int
    product: Product
    views: int


def ranked(*, limit: int, offset: int) -> list[Ranked]:
    """
    List the most viewed products, from place ``offset`` on, at most ``limit``. Products that are gone are left out.

    Products with the same number of views share a rank.
    """
    entries = viewed.popular(limit=limit, offset=offset)
    products = viewed.resolve([entry.item for entry in entries])
    ranks = {views: viewed.rank(views) for _, views in entries[:1]}
    for place, entry in enumerate(entries, start=offset + 1):
        ranks.setdefault(entry.views, place)
    return [Ranked(ranks[views], products[item], views) for item, views in entries if item in products]
