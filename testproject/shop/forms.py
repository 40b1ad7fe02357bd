from django import forms
from django.contrib.admin.forms import AdminAuthenticationForm

from django_redsess.accounts.forms import SessionLimitAuthenticationForm
from testproject.shop.basket import MAX_QUANTITY


class QuantityForm(forms.Form):
    """Ask for a number of pieces; 0 removes the product from the basket."""

    quantity = forms.IntegerField(min_value=0, max_value=MAX_QUANTITY)


class AdminSignInForm(SessionLimitAuthenticationForm, AdminAuthenticationForm):
    """Sign in to the admin."""
