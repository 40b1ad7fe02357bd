"""What the lists of sessions and of viewed items have in common: rows that are viewed only, page by page."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse


class NearestPage(Paginator):  # type: ignore[type-arg]  # not subscriptable at run time
    """Show the last page in place of one beyond it: rows go away while an administrator turns pages."""

    def validate_number(self, number: Any) -> int:
        return max(1, min(int(number), self.num_pages))


class ListAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """A list of rows that are viewed only. Subclasses add actions, which ask first."""

    list_per_page = 100
    list_max_show_all = 0
    paginator = NearestPage
    show_facets = admin.ShowFacets.NEVER

    class Media:
        css = {"all": ("django_redsess/admin.css", "django_redsess/admin-session.css")}

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def page(self, request: HttpRequest, template: str, title: str, context: dict[str, Any]) -> HttpResponse:
        """Show an admin page that is neither the list nor a row's page."""
        request.current_app = self.admin_site.name
        shared = {**self.admin_site.each_context(request), "title": title, "opts": self.opts, "media": self.media}
        return TemplateResponse(request, template, {**shared, **context})

    def to_list(self, query: str = "") -> HttpResponse:
        """Redirect to the list."""
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"
        url = reverse(name, current_app=self.admin_site.name)
        return HttpResponseRedirect(f"{url}?{query}" if query else url)
