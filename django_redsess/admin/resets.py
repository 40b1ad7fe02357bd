"""Resetting views in the admin: the action, the page that asks first, and the view that resets them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.models import LogEntry
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.urls import URLPattern, path
from django.utils.formats import number_format
from django.utils.translation import gettext, gettext_lazy, ngettext

from django_redsess import viewed
from django_redsess.admin import history
from django_redsess.admin.links import link_html
from django_redsess.admin.lists import ListAdmin
from django_redsess.models import PopularItem
from django_redsess.querysets.items import item_of, visible

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from django_redsess.querysets.items import RankingQuerySet


class ResetViewsMixin(ListAdmin):
    """The part of ``PopularItemAdmin`` that resets views."""

    reset_template = "admin/django_redsess/popularitem/reset_confirmation.html"

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        # The first asks, by GET. The second resets views, by POST only.
        return [
            path("confirm/", view(self.confirm_view), name="django_redsess_popularitem_confirm"),
            path("reset/", view(self.reset_view), name="django_redsess_popularitem_reset"),
            *super().get_urls(),
        ]

    def has_reset_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("django_redsess.reset_popularitem")

    @admin.action(description=gettext_lazy("Reset views of selected items"), permissions=["reset"])
    def reset_selected(self, request: HttpRequest, queryset: QuerySet[PopularItem]) -> HttpResponse:
        """Ask whether to reset the selected items, or all items: all of a list without a search."""
        ranking: RankingQuerySet = queryset  # type: ignore[assignment]
        return self.ask(request, ranking.items)

    def confirm_view(self, request: HttpRequest) -> HttpResponse:
        """Ask whether to reset all items."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        return self.ask(request, None)

    def reset_view(self, request: HttpRequest) -> HttpResponse:
        """Reset the items that were confirmed, and save that in their histories."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        self._require_permission(request)
        if "all" in request.POST:
            return self._reset_all(request)
        return self._reset_named(request, [item_of(key) for key in request.POST.getlist("item")])

    def ask(self, request: HttpRequest, items: Sequence[str] | None) -> HttpResponse:
        """Show which items would be reset: ``items``, or all for None."""
        self._require_permission(request)
        if items is None:
            number, count, _ = viewed.total()
            context: dict[str, Any] = {"all": True}
        else:
            ranking: RankingQuerySet = self.get_queryset(request)  # type: ignore[assignment]
            rows = list(ranking.filter(item__in=items))
            number, count = len(rows), sum(row.views for row in rows)
            context = {
                "found": [(link_html(row), row.pk, _views(row.views)) for row in rows],
                "gone": len(items) - number,
            }
        if number:
            context |= {"number": number, "views": _views(count)}
            return self.page(request, self.reset_template, gettext("Reset views"), context)
        self._report_nothing(request)
        return self.to_list()

    def _reset_named(self, request: HttpRequest, items: Sequence[str]) -> HttpResponse:
        chosen = dict.fromkeys(items)
        counts: dict[str, int] = {}
        try:
            for item in chosen:
                # A text that can't be an id was never viewed.
                with suppress(ValueError):
                    counts[item] = viewed.reset(item)
        finally:
            # In an outage half-way, too.
            done = {item: count for item, count in counts.items() if count}
            self._log(request, done)
        if not done:
            self._report_nothing(request)
            return self.to_list()
        text = ngettext("%(count)s item was reset (%(views)s).", "%(count)s items were reset (%(views)s).", len(done))
        messages.success(request, text % {"count": _number(len(done)), "views": _views(sum(done.values()))})
        if gone := len(chosen) - len(done):
            text = ngettext(
                "%(count)s item was not reset: it had no views any more.",
                "%(count)s items were not reset: they had no views any more.",
                gone,
            )
            messages.warning(request, text % {"count": _number(gone)})
        return self.to_list()

    def _reset_all(self, request: HttpRequest) -> HttpResponse:
        count = viewed.reset_all()
        if not count:
            self._report_nothing(request)
            return self.to_list()
        text = gettext("Reset the views of all items: %(count)d.") % {"count": count}
        history.line(request, PopularItem, None, self.opts.verbose_name_plural, text).save()
        messages.success(request, gettext("All items were reset (%(views)s).") % {"views": _views(count)})
        return self.to_list()

    def _log(self, request: HttpRequest, counts: Mapping[str, int]) -> None:
        lines = []
        for item, count in counts.items():
            text = ngettext("Reset %(count)d view.", "Reset %(count)d views.", count) % {"count": count}
            # Some databases refuse control characters.
            lines.append(history.line(request, PopularItem, visible(item), visible(item), text))
        LogEntry.objects.bulk_create(lines)

    def _report_nothing(self, request: HttpRequest) -> None:
        messages.warning(request, gettext("There are no views here to reset."))

    def _require_permission(self, request: HttpRequest) -> None:
        if not (self.has_reset_permission(request) and self.has_view_permission(request)):
            raise PermissionDenied


def _views(count: int) -> str:
    return ngettext("%(shown)s view", "%(shown)s views", count) % {"shown": _number(count)}


def _number(number: int) -> str:
    return number_format(number, force_grouping=True)
