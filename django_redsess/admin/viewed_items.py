"""The admin's list of the most viewed items, and resetting their views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

from django.contrib import admin, messages
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import SEARCH_VAR, ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.text import capfirst
from django.utils.translation import gettext, gettext_lazy, ngettext
from django.views.decorators.http import require_POST, require_safe

from django_redsess import viewed
from django_redsess.admin import log_entries
from django_redsess.admin.pages import ListAdmin, item_html, item_links, shown_number
from django_redsess.conf import conf
from django_redsess.models import PopularItem
from django_redsess.querysets import RankingQuerySet, item_of, visible

NAMED_MAX = 1000  # A search compares the names of so many of the most viewed items.
LEAST_SHARE = 0.001  # A smaller share is shown as "< 0.1%".


@admin.register(PopularItem)
class PopularItemAdmin(ListAdmin):
    """The list of the most viewed items, and the pages that reset their views."""

    list_display = ("rank", "name", "viewed", "share")
    list_display_links = None
    sortable_by = ()
    search_fields = ("item",)
    actions = ("reset_selected",)
    change_list_template = "admin/django_redsess/popularitem/change_list.html"
    reset_template = "admin/django_redsess/popularitem/reset_confirmation.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[PopularItem]:
        return PopularItem.viewed.resolving(partial(item_links, request, self.admin_site)).counting_once()

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> PopularItem | None:
        # Django looks for the history, and some databases raise an error for a NUL character.
        return None if "\0" in object_id else super().get_object(request, object_id, from_field)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[PopularItem], search_term: str
    ) -> tuple[QuerySet[PopularItem], bool]:
        """Find an item by its whole id, and items among the first 1 000 whose names have all words of the term."""
        term, ranking = search_term.strip(), cast(RankingQuerySet, queryset)
        if not term:
            return ranking, False
        # Blanks around a term are usually a mistake, but may be part of an id: look for both.
        found = list(ranking.filter(item__in=[search_term, term]).entries)
        if conf.VIEWED_RESOLVE is not None:
            first, words = viewed.popular(limit=NAMED_MAX), term.casefold().split()
            names = item_links(request, self.admin_site, [entry.item for entry in first])
            found += [entry for entry in first if entry.item in names and _has(names[entry.item].name, words)]
        return ranking.of_entries(found), False

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        found = super().get_changelist_instance(request)
        by_id = gettext("Search by the whole id of an item")
        by_name = gettext("Search by name, or by the whole id of an item")
        found.search_help_text = str(self.search_help_text or (by_id if conf.VIEWED_RESOLVE is None else by_name))
        return found

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        context = {
            "title": capfirst(self.opts.verbose_name_plural),
            "has_reset_permission": self.has_reset_permission(request),
            "views_are_named": bool(conf.VIEWED_VIEWS),
            "named_max": NAMED_MAX if conf.VIEWED_RESOLVE is not None else 0,
        }
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Redirect to the item in the list: an item has no page, but entries of the history link here."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return self.redirect_to_list({SEARCH_VAR: unquote(object_id)})

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        return [
            path("confirm/", view(require_safe(self.confirm_view)), name="django_redsess_popularitem_confirm"),
            path("reset/", view(require_POST(self.reset_view)), name="django_redsess_popularitem_reset"),
            *super().get_urls(),
        ]

    def has_reset_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("django_redsess.reset_popularitem")

    @admin.action(description=gettext_lazy("Reset views of selected items"), permissions=["reset"])
    def reset_selected(self, request: HttpRequest, queryset: QuerySet[PopularItem]) -> HttpResponse:
        """Ask whether to reset the selected items, or all items that match."""
        return self.ask_before_reset(request, cast(RankingQuerySet, queryset).items)

    def confirm_view(self, request: HttpRequest) -> HttpResponse:
        """Ask whether to reset all items."""
        return self.ask_before_reset(request, None)

    def reset_view(self, request: HttpRequest) -> HttpResponse:
        """Reset the items that were confirmed, and save that in their histories."""
        self._require_permission(request)
        if "all" in request.POST:
            return self._reset_all(request)
        return self._reset_named(request, [item_of(key) for key in request.POST.getlist("item")])

    def ask_before_reset(self, request: HttpRequest, items: Sequence[str] | None) -> HttpResponse:
        """Show which items would be reset. None stands for all items."""
        self._require_permission(request)
        if items is None:
            number, count, _ = viewed.total()
            context: dict[str, Any] = {"all": True}
        else:
            rows = list(self.get_queryset(request).filter(item__in=items))
            number, count = len(rows), sum(row.views for row in rows)
            found = [(item_html(row.item, row.object), row.pk, _views_text(row.views)) for row in rows]
            context = {"found": found, "gone": len(items) - number}
        if not number:
            return self._nothing_to_reset(request)
        context |= {"number": number, "views": _views_text(count)}
        return self.render_page(request, self.reset_template, gettext("Reset views"), context)

    def _reset_named(self, request: HttpRequest, items: Sequence[str]) -> HttpResponse:
        chosen = dict.fromkeys(items)
        counts: dict[str, int] = {}
        try:
            for item in chosen:
                # An invalid id was never viewed.
                with suppress(ValueError):
                    counts[item] = viewed.reset(item)
        finally:
            # Also in an outage half-way.
            done = {item: count for item, count in counts.items() if count}
            self._save_entries(request, done)
        if not done:
            return self._nothing_to_reset(request)
        text = ngettext("%(count)s item was reset (%(views)s).", "%(count)s items were reset (%(views)s).", len(done))
        messages.success(request, text % {"count": shown_number(len(done)), "views": _views_text(sum(done.values()))})
        if gone := len(chosen) - len(done):
            text = ngettext(
                "%(count)s item was not reset: it had no views any more.",
                "%(count)s items were not reset: they had no views any more.",
                gone,
            )
            messages.warning(request, text % {"count": shown_number(gone)})
        return self.redirect_to_list()

    def _reset_all(self, request: HttpRequest) -> HttpResponse:
        count = viewed.reset_all()
        if not count:
            return self._nothing_to_reset(request)
        with log_entries.in_language_of_site():
            text = gettext("Reset the views of all items: %(count)d.") % {"count": count}
            log_entries.make_entry(request, PopularItem, None, self.opts.verbose_name_plural, text).save()
        messages.success(request, gettext("All items were reset (%(views)s).") % {"views": _views_text(count)})
        return self.redirect_to_list()

    @log_entries.in_language_of_site()
    def _save_entries(self, request: HttpRequest, counts: Mapping[str, int]) -> None:
        entries = []
        for item, count in counts.items():
            text = ngettext("Reset %(count)d view.", "Reset %(count)d views.", count) % {"count": count}
            # Some databases refuse control characters.
            entries.append(log_entries.make_entry(request, PopularItem, visible(item), visible(item), text))
        LogEntry.objects.bulk_create(entries)

    def _nothing_to_reset(self, request: HttpRequest) -> HttpResponse:
        messages.warning(request, gettext("There are no views here to reset."))
        return self.redirect_to_list()

    def _require_permission(self, request: HttpRequest) -> None:
        if not (self.has_reset_permission(request) and self.has_view_permission(request)):
            raise PermissionDenied

    @admin.display(description=gettext_lazy("rank"))
    def rank(self, row: PopularItem) -> str:
        return shown_number(row.rank)

    @admin.display(description=gettext_lazy("item"))
    def name(self, row: PopularItem) -> str:
        return item_html(row.item, row.object)

    @admin.display(description=gettext_lazy("views"))
    def viewed(self, row: PopularItem) -> str:
        return shown_number(row.views)

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


def _has(name: str, words: Sequence[str]) -> bool:
    folded = name.casefold()
    return all(word in folded for word in words)


def _views_text(count: int) -> str:
    return ngettext("%(shown)s view", "%(shown)s views", count) % {"shown": shown_number(count)}
