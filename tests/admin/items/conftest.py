"""What the tests of the page of most viewed items share: items that were viewed, and what they are called."""

from __future__ import annotations

import pytest

from django_redsess.admin import PopularItemAdmin
from testproject.shop.models import Product
from tests.helpers.items import VIEWS
from tests.helpers.store import have_views


@pytest.fixture
def known(redis) -> dict[str, int]:
    have_views(redis, VIEWS)
    return VIEWS


@pytest.fixture(autouse=True)
def without_names(settings) -> None:
    settings.REDSESS = {name: value for name, value in settings.REDSESS.items() if name != "VIEWED_RESOLVE"}


@pytest.fixture
def products(settings) -> dict[str, Product]:
    """Products that are called by some of the items, and found for them."""
    settings.REDSESS = {**settings.REDSESS, "VIEWED_RESOLVE": "testproject.shop.models.products_by_slug"}
    return {slug: Product.objects.create(slug=slug, name=f"Best {slug}") for slug in ("kite", "lamp")}


@pytest.fixture
def few_on_a_page(monkeypatch) -> None:
    monkeypatch.setattr(PopularItemAdmin, "list_per_page", 2)
