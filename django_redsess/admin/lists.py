"""What the admin's lists of rows in Redis have in common: they are looked at, and what is done is confirmed first."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.core.paginator import Paginator
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse


class NearestPage(Paginator):  # type: ignore[type-arg]  # not subscriptable at run time
    """Gives the last page for one beyond it: rows go while somebody turns pages."""

    def validate_number(self, number: Any) -> int:
        return max(1, min(int(number), self.num_pages))


class ListAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """A list of rows that nobody adds, changes or deletes as those of a table."""

    list_per_page = 100
    list_max_show_all = 0
    paginator = NearestPage
    show_facets = admin.ShowFacets.NEVER

    class Media:
        css = {"all": ("django_redsess/admin.css",)}

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def page(self, request: HttpRequest, template: str, title: str, context: dict[str, Any]) -> HttpResponse:
        """Show a page of the admin that is neither the list nor the page of a row."""
        request.current_app = self.admin_site.name
        shared = {**self.admin_site.each_context(request), "title": title, "opts": self.opts, "media": self.media}
        return TemplateResponse(request, template, {**shared, **context})

    def to_list(self, query: str = "") -> HttpResponse:
        """Lead to the list."""
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"
        url = reverse(name, current_app=self.admin_site.name)
        return HttpResponseRedirect(f"{url}?{query}" if query else url)


def history_line(request: HttpRequest, model: type[Model], object_id: str | None, shown: object, text: str) -> LogEntry:
    """Make a line of the history of an object of ``model``, or of all; ``shown`` is how the line calls it."""
    return LogEntry(
        user_id=request.user.pk,  # type: ignore[misc]  # somebody is signed in here
        content_type=ContentType.objects.get_for_model(model),
        object_id=object_id,
        object_repr=str(shown)[:200],
        action_flag=CHANGE,
        change_message=text,
    )
