from django import forms

from testproject.shop.basket import MAX_QUANTITY


class QuantityForm(forms.Form):
    """Ask for a number of pieces; none takes the product out of the basket."""

    quantity = forms.IntegerField(min_value=0, max_value=MAX_QUANTITY)
