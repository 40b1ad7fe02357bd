"""The catalogue of the shop."""

from __future__ import annotations

import pytest

from testproject.shop.catalogue import CATALOGUE, load_catalogue
from testproject.shop.models import Product

pytestmark = pytest.mark.unit


@pytest.mark.django_db
def test_loading_the_catalogue_twice_restores_each_product_and_adds_none() -> None:
    load_catalogue()
    Product.objects.update(name="changed")
    load_catalogue()
    assert [product.name for product in Product.objects.all()] == [entry.name for entry in CATALOGUE]
