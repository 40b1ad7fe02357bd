"""The basket: the products that a visitor wants to buy, in the session as ``{slug: quantity}``."""

from dataclasses import dataclass
from decimal import Decimal

from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest

from testproject.shop.models import Product

KEY = "basket"
MAX_QUANTITY = 20


@dataclass(frozen=True)
class Line:
    product: Product
    quantity: int

    @property
    def price(self) -> Decimal:
        return self.product.price * self.quantity


def quantities(session: SessionBase) -> dict[str, int]:
    """Return a copy of the basket. Reading it starts no session."""
    return dict(session.get(KEY, {}))


def set_quantity(session: SessionBase, slug: str, quantity: int) -> None:
    """Set the quantity of a product in the basket; 0 removes it."""
    basket = quantities(session)
    if quantity > 0:
        basket[slug] = min(quantity, MAX_QUANTITY)
    else:
        basket.pop(slug, None)
    session[KEY] = basket


def lines(session: SessionBase) -> list[Line]:
    """Return the lines of the basket. Products that the shop no longer has are removed from it."""
    basket = quantities(session)
    products = Product.objects.in_bulk(list(basket), field_name="slug")
    for gone in basket.keys() - products.keys():
        set_quantity(session, gone, 0)
    return [Line(products[slug], quantity) for slug, quantity in basket.items() if slug in products]


def pieces(request: HttpRequest) -> dict[str, int]:
    """Add the number of pieces in the basket to every template: a context processor."""
    return {"basket_pieces": sum(quantities(request.session).values())}
