"""The admin pages: who is online, and ending sessions."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.admin.utils import quote
from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, URLPattern, path, reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.text import capfirst
from django.utils.timesince import timesince
from django.utils.translation import gettext, gettext_lazy, ngettext

from django_redsess import online
from django_redsess.keys import is_sid
from django_redsess.models import OnlineSession
from django_redsess.store import USERS_MAX

if TYPE_CHECKING:
    from django.db.models import QuerySet

END_MAX = 1000
"""How many sessions can be ended at once."""


@admin.register(OnlineSession)
class OnlineSessionAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    list_display = ("user", "login_at", "seen", "address", "browser")
    list_display_links = ("login_at",)
    list_per_page = 100
    list_max_show_all = 0
    ordering = ("-login_at",)
    sortable_by = ("login_at",)
    search_fields = ("user",)
    search_help_text = gettext_lazy("User name, or the id of a session")
    show_facets = admin.ShowFacets.NEVER
    actions = ("end_selected",)
    fields = ("user", "sid", "login_at", "seen_at", "expires_at", "address", "browser", "user_agent")
    readonly_fields = ("user", "browser")

    def get_queryset(self, request: HttpRequest) -> QuerySet[OnlineSession]:
        return OnlineSession.online.all()

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        title = capfirst(self.opts.verbose_name_plural)
        return super().changelist_view(request, {"title": title, **(extra_context or {})})

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[OnlineSession], search_term: str
    ) -> tuple[QuerySet[OnlineSession], bool]:
        """Look the term up among the users first, and list the sessions of those it fits."""
        term = search_term.strip()
        if not term:
            return queryset, False
        if is_sid(term) and (by_sid := queryset.filter(sid=term)).exists():
            return by_sid, False
        users = get_user_model()._base_manager
        name = f"{get_user_model().USERNAME_FIELD}__icontains"
        found = list(users.filter(**{name: term}).order_by("pk").only("pk")[: USERS_MAX + 1])
        if len(found) > USERS_MAX and request.method == "GET":
            text = gettext("More than %(limit)d users match. The sessions of the first %(limit)d are listed.")
            self.message_user(request, text % {"limit": USERS_MAX}, messages.WARNING)
        user_ids = [online.user_id_of(user) for user in found[:USERS_MAX]]
        return queryset.of_users(user_ids), False  # type: ignore[attr-defined]

    @admin.display(description=gettext_lazy("user"))
    def user(self, session: OnlineSession) -> str:
        """Link to the user's own page, where there is one."""
        meta = get_user_model()._meta
        if session.user is None:
            return str(session)
        try:
            url = reverse(f"admin:{meta.app_label}_{meta.model_name}_change", args=(quote(session.user.pk),))
        except NoReverseMatch:
            return str(session)
        return format_html('<a href="{}">{}</a>', url, session)

    @admin.display(description=gettext_lazy("last seen"))
    def seen(self, session: OnlineSession) -> str:
        """Tell how long ago, and exactly when on hover."""
        exact = date_format(timezone.localtime(session.seen_at), "DATETIME_FORMAT")
        ago = gettext("just now")
        if timezone.now() - session.seen_at >= timedelta(minutes=1):
            ago = gettext("%(time)s ago") % {"time": timesince(session.seen_at, depth=1)}
        return format_html('<time datetime="{}" title="{}">{}</time>', session.seen_at.isoformat(), exact, ago)

    @admin.display(description=gettext_lazy("browser"))
    def browser(self, session: OnlineSession) -> str:
        """Name browser and system, with the whole user agent on hover."""
        return format_html('<span title="{}">{}</span>', session.user_agent, _browser_of(session.user_agent))

    @admin.action(description=gettext_lazy("End selected sessions"), permissions=["end"])
    def end_selected(self, request: HttpRequest, queryset: QuerySet[OnlineSession]) -> HttpResponse | None:
        """Ask whether to end these sessions. The page that asks holds their ids: rows that move stay chosen."""
        chosen = list(queryset[: END_MAX + 1])
        if len(chosen) > END_MAX:
            text = gettext("At most %(limit)d sessions can be ended at once. Search for some of them.")
            self.message_user(request, text % {"limit": END_MAX}, messages.ERROR)
            return None
        context = {
            **self.admin_site.each_context(request),
            "title": gettext("End sessions"),
            "opts": self.opts,
            "chosen": chosen,
            "protected": {session.sid for session in chosen if not _may_end(request, session)},
            "own_sid": getattr(request.session, "sid", None),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/django_redsess/onlinesession/end_confirmation.html", context)

    def end_view(self, request: HttpRequest) -> HttpResponse:
        """End the sessions that the confirmation page names, and write each into its user's history."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.has_end_permission(request):
            raise PermissionDenied
        sids = list(dict.fromkeys(request.POST.get("sids", "").split()))[:END_MAX]
        found = [session for session in OnlineSession.online.filter(sid__in=sids) if _may_end(request, session)]
        ended = {one.sid for one in online.end(*(session.sid for session in found))}
        self._log(request, [session for session in found if session.sid in ended])
        if getattr(request.session, "sid", None) in ended:
            # Else a message that is kept in the session would be saved to what is over.
            request.session.flush()
        if ended:
            text = ngettext("%(count)d session was ended.", "%(count)d sessions were ended.", len(ended))
            self.message_user(request, text % {"count": len(ended)}, messages.SUCCESS)
        if others := len(sids) - len(ended):
            text = ngettext(
                "%(count)d session was not ended: it was over already, or is a superuser's.",
                "%(count)d sessions were not ended: they were over already, or are superusers'.",
                others,
            )
            self.message_user(request, text % {"count": others}, messages.WARNING)
        return HttpResponseRedirect(reverse("admin:django_redsess_onlinesession_changelist"))

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.end_view)
        return [path("end/", view, name="django_redsess_onlinesession_end"), *super().get_urls()]

    def has_end_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("django_redsess.end_onlinesession")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def _log(self, request: HttpRequest, ended: list[OnlineSession]) -> None:
        # On the user: an ended session has no page on which a history could be read.
        content_type = ContentType.objects.get_for_model(get_user_model())
        LogEntry.objects.bulk_create(
            LogEntry(  # type: ignore[misc]  # somebody is signed in here: there is a primary key
                user_id=request.user.pk,
                content_type=content_type,
                object_id=session.user_id,
                object_repr=str(session)[:200],
                action_flag=CHANGE,
                change_message=gettext("Ended the session %(sid)s, signed in %(login_at)s.")
                % {"sid": session.sid, "login_at": f"{session.login_at:%Y-%m-%d %H:%M} UTC"},
            )
            for session in ended
        )


def _may_end(request: HttpRequest, session: OnlineSession) -> bool:
    return bool(getattr(request.user, "is_superuser", False) or not getattr(session.user, "is_superuser", False))


def _browser_of(user_agent: str) -> str:
    try:
        from ua_parser import parse
    except ImportError:
        return user_agent
    known = parse(user_agent)
    if known.user_agent is None:
        return user_agent
    browser = " ".join(filter(None, (known.user_agent.family, known.user_agent.major)))
    if known.os is None:
        return browser
    return gettext("%(browser)s on %(system)s") % {"browser": browser, "system": known.os.family}
