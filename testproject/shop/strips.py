"""The strips of products that people have looked at."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar

from django.contrib.sessions.backends.base import SessionBase

from django_redsess import viewed
from testproject.shop.models import Product

LENGTH = 6

T = TypeVar("T")


def recently_viewed(session: SessionBase, leave_out: str = "") -> list[tuple[Product, datetime]]:
    """Return what this visitor has looked at, newest first, and when."""
    views = viewed.recent(session, limit=LENGTH + 1)
    return _with_products([view for view in views if view.item != leave_out])[:LENGTH]


def most_viewed() -> list[tuple[Product, int]]:
    """Return what all visitors look at most, and how many views it has had."""
    return _with_products(viewed.popular(limit=LENGTH))


def _with_products(entries: Sequence[tuple[str, T]]) -> list[tuple[Product, T]]:
    products = Product.objects.in_bulk([item for item, _ in entries], field_name="slug")
    return [(products[item], what) for item, what in entries if item in products]
