from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_POST, require_safe

from django_redsess import viewed
from testproject.shop import basket, ranking
from testproject.shop.forms import QuantityForm
from testproject.shop.models import Product
from testproject.shop.picture import drawing

PAGE_SIZE = 12
POPULAR_PAGE_SIZE = 24


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    paginator = Paginator(Product.objects.all(), PAGE_SIZE)
    page = paginator.get_page(request.GET.get("page"))
    context = {
        "page": page,
        "page_range": paginator.get_elided_page_range(page.number, on_each_side=1, on_ends=1),
    }
    return render(request, "shop/home.html", context)


@require_safe
def popular(request: HttpRequest) -> HttpResponse:
    paginator = Paginator(range(viewed.total().items), POPULAR_PAGE_SIZE)
    page = paginator.get_page(request.GET.get("page"))
    context = {
        "page": page,
        "page_range": paginator.get_elided_page_range(page.number, on_each_side=1, on_ends=1),
        "ranked": ranking.ranked(limit=POPULAR_PAGE_SIZE, offset=(page.number - 1) * POPULAR_PAGE_SIZE),
        "views_of_first": max([views for _, views in viewed.popular(limit=1)], default=0),
    }
    return render(request, "shop/popular.html", context)


@require_safe
def product(request: HttpRequest, slug: str) -> HttpResponse:
    shown = get_object_or_404(Product, slug=slug)
    context = {
        "product": shown,
        "max_quantity": basket.MAX_QUANTITY,
    }
    return render(request, "shop/product.html", context)


@require_safe
@cache_control(public=True, max_age=3600)
def picture(request: HttpRequest, slug: str) -> HttpResponse:
    shown = get_object_or_404(Product, slug=slug)
    # Without the request: otherwise a context processor would read the session, and no cache could keep the picture.
    return render(None, "shop/picture.svg", drawing(shown), content_type="image/svg+xml")


@require_safe
def basket_page(request: HttpRequest) -> HttpResponse:
    lines = basket.lines(request.session)
    context = {
        "lines": lines,
        "total": sum(line.price for line in lines),
        "max_quantity": basket.MAX_QUANTITY,
    }
    return render(request, "shop/basket.html", context)


@require_POST
def add(request: HttpRequest, slug: str) -> HttpResponse:
    """Add pieces of a product to the basket."""
    chosen = get_object_or_404(Product, slug=slug)
    form = QuantityForm(request.POST)
    if not form.is_valid() or not form.cleaned_data["quantity"]:
        messages.error(request, gettext("Choose between 1 and %(most)d pieces.") % {"most": basket.MAX_QUANTITY})
        return redirect(chosen)
    already = basket.quantities(request.session).get(slug, 0)
    basket.set_quantity(request.session, slug, already + form.cleaned_data["quantity"])
    messages.success(request, gettext("%(name)s is in your basket.") % {"name": chosen.name})
    return redirect("shop:basket")


@require_POST
def change(request: HttpRequest, slug: str) -> HttpResponse:
    """Set the number of pieces of a product in the basket; 0 removes it."""
    form = QuantityForm(request.POST)
    if slug not in basket.quantities(request.session):
        messages.error(request, gettext("That is no longer in your basket."))
    elif form.is_valid():
        basket.set_quantity(request.session, slug, form.cleaned_data["quantity"])
    else:
        messages.error(request, gettext("Choose between 0 and %(most)d pieces.") % {"most": basket.MAX_QUANTITY})
    return redirect("shop:basket")


@require_POST
def forget(request: HttpRequest) -> HttpResponse:
    """Remove one product, or all, from this visitor's history. Then go back to the page of the form."""
    item = request.POST.get("item")
    try:
        forgotten = viewed.forget(request.session, item)
    except ValueError:
        forgotten = 0
    if item is None:
        messages.success(request, gettext("Your history is cleared."))
    elif forgotten:
        messages.success(request, gettext("That kite is off your list."))
    else:
        messages.error(request, gettext("That is no longer on your list."))
    back = request.POST.get("next", "")
    # No host is allowed: only a path of this shop is safe.
    if not url_has_allowed_host_and_scheme(back, allowed_hosts=None):
        back = reverse("shop:home")
    return HttpResponseRedirect(back)
