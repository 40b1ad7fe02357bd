"""The strips of products that people have looked at."""

from datetime import datetime

from django.contrib.sessions.backends.base import SessionBase

from django_redsess import viewed
from testproject.shop.models import Product

LENGTH = 6


def recently_viewed(session: SessionBase, leave_out: str = "") -> list[tuple[Product, datetime]]:
    """Return what this visitor has looked at, newest first, and when."""
    views = [view for view in viewed.recent(session, limit=LENGTH + 1) if view.item != leave_out]
    products = Product.objects.in_bulk([view.item for view in views], field_name="slug")
    return [(products[view.item], view.at) for view in views if view.item in products][:LENGTH]


def most_viewed() -> list[tuple[Product, int]]:
    """Return what all visitors look at most, and how many views it has had."""
    views = viewed.popular(limit=LENGTH)
    products = Product.objects.in_bulk([view.item for view in views], field_name="slug")
    return [(products[view.item], view.views) for view in views if view.item in products]
