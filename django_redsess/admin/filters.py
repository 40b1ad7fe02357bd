"""The filters beside the admin's list of sessions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.admin import ListFilter, ModelAdmin, SimpleListFilter
from django.contrib.admin.sites import AdminSite
from django.contrib.admin.views.main import ORDER_VAR
from django.contrib.auth import get_user_model
from django.core.exceptions import FieldDoesNotExist
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext, gettext_lazy

from django_redsess import online
from django_redsess.online.listing import USERS_MAX
from django_redsess.online.user_agents import BROWSERS, SYSTEMS
from django_redsess.querysets import users_by_id
from django_redsess.session import user_limit

if TYPE_CHECKING:
    from django.contrib.admin.views.main import ChangeList
    from django.contrib.auth.models import AbstractBaseUser

    from django_redsess.querysets import SessionQuerySet

USER, WHO, ACTIVE, STAFF, BROWSER, SYSTEM = "user", "who", "active", "staff", "browser", "system"

SECONDS = {"5m": 300, "1h": 3600, "1d": 86400}

GUESTS, EVERYONE = "guests", "everyone"

NAMES_MAX = 5
"""So many users are named in the filter."""

NAME_MAX = 200
"""A longer name of a browser or system is cut."""


def only_by_seen(request: HttpRequest) -> bool:
    """Tell whether the filters of ``request`` allow no order but by last seen."""
    return request.GET.get(ACTIVE) in SECONDS or request.GET.get(WHO) in (GUESTS, EVERYONE)


def users_admin(request: HttpRequest, site: AdminSite) -> ModelAdmin[Any] | None:
    """Return the admin of users if the administrator may see users there, else None."""
    found = site._registry.get(get_user_model())
    return found if found is not None and found.has_view_or_change_permission(request) else None


def visible_users(request: HttpRequest, site: AdminSite, user_ids: set[str]) -> dict[str, AbstractBaseUser]:
    """Fetch those of the users with these primary keys whom the administrator may see in the admin of users."""
    of_users = users_admin(request, site)
    return {} if of_users is None else users_by_id(user_ids, among=of_users.get_queryset(request))


def limit_of_user(request: HttpRequest, site: AdminSite, user_id: str) -> str:
    """
    Describe the limit of a user's sessions. ``""`` for administrators who may not see the user.

    They must not learn whether there is a user with this id, nor what the limit may tell, such as who is staff.
    """
    return user_limit.describe(visible_users(request, site, {user_id}).get(user_id))


class WhoFilter(SimpleListFilter):
    """Signed-in sessions only, guests' only, or both."""

    title = gettext_lazy("visitor")
    parameter_name = WHO

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [
            (GUESTS, gettext_lazy("Guests, by last seen")),
            (EVERYONE, gettext_lazy("Everyone, by last seen")),
        ]

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        signed_in = changelist.get_query_string(remove=[WHO, ORDER_VAR])
        yield {
            "selected": self.value() not in (GUESTS, EVERYONE),
            "query_string": signed_in,
            "display": gettext("Signed in"),
        }
        for value, display in self.lookup_choices:
            query = changelist.get_query_string({WHO: value, **_by_seen(changelist)})
            yield {"selected": self.value() == value, "query_string": query, "display": display}

    def queryset(self, request: HttpRequest, queryset: SessionQuerySet) -> SessionQuerySet:  # type: ignore[override]
        if self.value() == GUESTS:
            return queryset.only_guests()
        return queryset.with_guests() if self.value() == EVERYONE else queryset


class ActiveFilter(SimpleListFilter):
    """Sessions that were seen in the last minutes, hour or day."""

    title = gettext_lazy("last seen")
    parameter_name = ACTIVE

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [
            ("5m", gettext_lazy("In the last 5 minutes")),
            ("1h", gettext_lazy("In the last hour")),
            ("1d", gettext_lazy("In the last day")),
        ]

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        at_any_time = changelist.get_query_string(remove=[ACTIVE, ORDER_VAR])
        yield {"selected": self.value() not in SECONDS, "query_string": at_any_time, "display": gettext("All")}
        for value, display in self.lookup_choices:
            query = changelist.get_query_string({ACTIVE: value, **_by_seen(changelist)})
            yield {"selected": self.value() == value, "query_string": query, "display": display}

    def queryset(self, request: HttpRequest, queryset: SessionQuerySet) -> SessionQuerySet:  # type: ignore[override]
        seconds = SECONDS.get(self.value() or "")
        return queryset.active(seconds) if seconds else queryset


class StaffFilter(SimpleListFilter):
    """Sessions of staff. Only for administrators who may see users: it tells a field of theirs."""

    title = gettext_lazy("staff")
    parameter_name = STAFF

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        try:
            get_user_model()._meta.get_field("is_staff")
        except FieldDoesNotExist:
            return []
        of_users = users_admin(request, model_admin.admin_site)
        if of_users is None:
            return []
        self.users = of_users.get_queryset(request)
        return [("1", gettext_lazy("Staff only"))]

    def queryset(self, request: HttpRequest, queryset: SessionQuerySet) -> SessionQuerySet:  # type: ignore[override]
        if self.value() != "1":
            return queryset
        return queryset.of_users(ids_of(request, self.users.filter(is_staff=True).order_by("pk"), queryset))


class ClientFilter(SimpleListFilter):
    """Sessions of a browser or of a system. A link or a search may name one that is not in the list of choices."""

    names: Sequence[str] = ()

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        value = self.name
        return [(name, name) for name in (*self.names, *([value] if value and value not in self.names else ()))]

    @property
    def name(self) -> str:
        return (self.value() or "").strip()[:NAME_MAX]


class BrowserFilter(ClientFilter):
    """Sessions of a browser, or of a version of it."""

    title = gettext_lazy("browser")
    parameter_name = BROWSER
    names = BROWSERS

    def queryset(self, request: HttpRequest, queryset: SessionQuerySet) -> SessionQuerySet:  # type: ignore[override]
        return queryset.of_browser(self.name) if self.name else queryset


class SystemFilter(ClientFilter):
    """Sessions of an operating system."""

    title = gettext_lazy("operating system")
    parameter_name = SYSTEM
    names = SYSTEMS

    def queryset(self, request: HttpRequest, queryset: SessionQuerySet) -> SessionQuerySet:  # type: ignore[override]
        return queryset.of_system(self.name) if self.name else queryset


class UserFilter(ListFilter):
    """Sessions of some users. Links lead here: a list of all users would be too long to choose from."""

    title = gettext_lazy("user")
    parameter_name = USER  # django-unfold asks every filter for it.

    def __init__(
        self,
        request: HttpRequest,
        params: dict[str, list[str]],
        model: type[Model],
        model_admin: ModelAdmin[Any],
    ) -> None:
        super().__init__(request, params, model, model_admin)
        self.user_ids = params.pop(USER, [])[:USERS_MAX]
        self.named: dict[str, AbstractBaseUser] = visible_users(
            request, model_admin.admin_site, set(self.user_ids[:NAMES_MAX])
        )
        if self.user_ids:
            self.used_parameters[USER] = self.user_ids

    def has_output(self) -> bool:
        return bool(self.user_ids)

    def expected_parameters(self) -> list[str | None]:
        return [USER]

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        yield {
            "selected": False,
            "query_string": changelist.get_query_string(remove=[USER]),
            "display": gettext("All"),
        }
        # The users in the list were fetched with it.
        known = self.named | {row.user_id: row.user for row in changelist.result_list if row.user}
        names = [str(known.get(user_id, user_id[:40])) for user_id in self.user_ids[:NAMES_MAX]]
        more = ["…"] if len(self.user_ids) > len(names) else []
        yield {
            "selected": True,
            "query_string": changelist.get_query_string(),
            "display": ", ".join(names + more),
        }

    def queryset(self, request: HttpRequest, queryset: SessionQuerySet) -> SessionQuerySet:  # type: ignore[override]
        return queryset.of_users(self.user_ids) if self.user_ids else queryset


def _by_seen(changelist: ChangeList) -> dict[str, str]:
    # Such a list has no other order. With the order in the link, the table's header shows it, too.
    columns = list(changelist.list_display)
    return {ORDER_VAR: f"-{columns.index('seen')}"} if "seen" in columns else {}


def chosen(changelist: ChangeList, *, but: str = "") -> list[str]:
    """Return the choices that are selected in the filters, apart from the first of each, and from that of ``but``."""
    return [
        str(choice["display"])
        for spec in changelist.filter_specs
        if but not in spec.expected_parameters()
        for number, choice in enumerate(spec.choices(changelist))
        # The first choice of each filter is "All", or "Signed in".
        if choice["selected"] and number
    ]


def ids_of(request: HttpRequest, users: QuerySet[Any], sessions: SessionQuerySet) -> list[str]:
    """
    Return the ids of ``users`` as sessions hold them: at most 1 000. If there are more, a message says so.

    If ``sessions`` are those of some users, all others are left out first.
    """
    # The admin of users may have added joins and prefetches, which are not needed here.
    users = users.select_related(None).prefetch_related(None).only("pk")
    kept = sessions.session_filter.user_ids
    if kept is not None:
        return list(users_by_id(set(kept), among=users))
    found = list(users[: USERS_MAX + 1])
    if len(found) > USERS_MAX and request.method == "GET":
        text = gettext("More than %(limit)d users match. The sessions of the first %(limit)d are listed.")
        messages.warning(request, text % {"limit": USERS_MAX}, fail_silently=True)
    return [online.user_id_of(user) for user in found[:USERS_MAX]]
