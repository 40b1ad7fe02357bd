"""Prices in templates."""

from decimal import Decimal

from django import template
from django.utils.formats import number_format
from django.utils.translation import gettext

register = template.Library()


@register.filter
def price(amount: Decimal) -> str:
    """Return an amount of euros as the language writes it."""
    return gettext("€%(amount)s") % {"amount": number_format(amount, decimal_pos=2)}
