"""The admin's list of the most viewed items."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import SEARCH_VAR
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.text import capfirst
from django.utils.translation import gettext, gettext_lazy

from django_redsess.admin import links
from django_redsess.admin.resets import ResetViewsMixin
from django_redsess.conf import conf
from django_redsess.models import PopularItem

if TYPE_CHECKING:
    from django.db.models import QuerySet

LEAST_SHARE = 0.001
"""A smaller share is shown as less than this one."""


@admin.register(PopularItem)
class PopularItemAdmin(ResetViewsMixin):
    """The list of the most viewed items."""

    list_display = ("rank", "name", "viewed", "share")
    list_display_links = None
    sortable_by = ()
    search_fields = ("item",)
    search_help_text = gettext_lazy("Search by the whole id of an item")
    actions = ("reset_selected",)
    change_list_template = "admin/django_redsess/popularitem/change_list.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[PopularItem]:
        return PopularItem.viewed.resolving(partial(links.links_of, request, self.admin_site)).counting_once()

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> PopularItem | None:
        # Some databases raise an error for text with a NUL character, when Django looks for the history.
        return None if "\0" in object_id else super().get_object(request, object_id, from_field)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[PopularItem], search_term: str
    ) -> tuple[QuerySet[PopularItem], bool]:
        term = search_term.strip()
        # Blanks around a term are usually a mistake, but may be part of an id: look for both.
        return (queryset.filter(item__in=[search_term, term]) if term else queryset), False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        context = {
            "title": capfirst(self.opts.verbose_name_plural),
            "has_reset_permission": self.has_reset_permission(request),
            "views_are_named": bool(conf.VIEWED_VIEWS),
        }
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Redirect to the item in the list. Lines of the history link here, but an item has no page."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return self.to_list(urlencode({SEARCH_VAR: unquote(object_id)}))

    @admin.display(description=gettext_lazy("rank"))
    def rank(self, row: PopularItem) -> str:
        return number_format(row.rank, force_grouping=True)

    @admin.display(description=gettext_lazy("item"))
    def name(self, row: PopularItem) -> str:
        return links.link_html(row)

    @admin.display(description=gettext_lazy("views"))
    def viewed(self, row: PopularItem) -> str:
        return number_format(row.views, force_grouping=True)

    @admin.display(description=gettext_lazy("share"))
    def share(self, row: PopularItem) -> str:
        """
        Show the share of all views, and a bar, which is full for the most viewed item.

        It has no styles: a Content-Security-Policy may forbid them.
        """
        percent = round(100 * max(row.share, LEAST_SHARE), 1)
        text = gettext("%(number)s%%") % {"number": number_format(percent, 1)}
        if row.share < LEAST_SHARE:
            text = f"< {text}"
        return format_html(
            '<span class="redsess-share"><svg width="120" height="8" viewBox="0 0 100 8" preserveAspectRatio="none" '
            'aria-hidden="true" focusable="false"><path d="M0 0h100v8h-100z" fill="currentColor" fill-opacity="0.15"/>'
            '<path d="M0 0h{0}v8h-{0}z" fill="#2f7fc1"/></svg> <span>{1}</span></span>',
            f"{100 * row.of_most:.2f}",
            text,
        )
