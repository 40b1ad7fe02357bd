"""The filters beside the admin's list of sessions, and the search for users, which other lists share."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

from django.contrib import messages
from django.contrib.admin import ListFilter, ModelAdmin, SimpleListFilter
from django.contrib.admin.sites import AdminSite
from django.contrib.admin.utils import NotRelationField, get_fields_from_path
from django.contrib.admin.views.main import ORDER_VAR, ChangeList
from django.contrib.auth import get_user_model
from django.core.exceptions import FieldDoesNotExist
from django.db.models import Model, QuerySet
from django.db.models.constants import LOOKUP_SEP
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy, pgettext_lazy

from django_redsess.admin.access import leaves_out_users, users_admin
from django_redsess.admin.blocking import findable_users
from django_redsess.admin.pages import GUESTS, ONLY, TOO, USER
from django_redsess.admin.users import name_among
from django_redsess.conf import conf
from django_redsess.online.browsers import BROWSERS, SYSTEMS
from django_redsess.online.listing import USERS_MAX
from django_redsess.online.networks import NetworkListError
from django_redsess.permissions import users_have
from django_redsess.querysets import SessionQuerySet, users_by_id
from django_redsess.session.store import user_id_of

ACTIVE, STAFF, DEVICE_BOUND = "active", "staff", "device_bound"
NETWORK, BROWSER, SYSTEM = "network", "browser", "system"

SECONDS = {"5m": None, "1h": 3600, "1d": 86400}
"""How far back each choice reaches. None is the default: the five minutes in which a session is active."""

NAMES_MAX = 5  # The filter names so many users.
NAME_MAX = 200  # A longer name is cut.

logger = logging.getLogger("django_redsess")


def orders_by_seen_only(request: HttpRequest) -> bool:
    """Tell whether the filters of ``request`` allow only the order by last seen."""
    return request.GET.get(ACTIVE) in SECONDS or request.GET.get(GUESTS) in (ONLY, TOO)


class BySeenFilter(SimpleListFilter):
    """A filter whose choices order the list by last seen: no other order is possible then."""

    texts: dict[str, Promise]
    """The choices by value."""
    without: Promise
    """The choice of no filter."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return list(self.texts.items())

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        name = str(self.parameter_name)
        query = changelist.get_query_string(remove=[name, ORDER_VAR])
        yield {"selected": self.value() not in self.texts, "query_string": query, "display": self.without}
        columns = list(changelist.list_display)
        # The order is in the link so that the head of the table shows it, too.
        order = {ORDER_VAR: f"-{columns.index('seen')}"} if "seen" in columns else {}
        for value, display in self.lookup_choices:
            query = changelist.get_query_string({name: value, **order})
            yield {"selected": self.value() == value, "query_string": query, "display": display}


class GuestsFilter(BySeenFilter):
    """Signed-in sessions only, guests' only, or both."""

    # Django shows the title of a filter in "By %(filter_title)s". The context tells those who translate it.
    title = pgettext_lazy("filter by", "visitor")
    parameter_name = GUESTS
    texts = {ONLY: gettext_lazy("Guests, by last seen"), TOO: gettext_lazy("Everyone, by last seen")}
    without = gettext_lazy("Signed in")

    def queryset(self, request: HttpRequest, queryset: SessionQuerySet) -> SessionQuerySet:  # type: ignore[override]
        if self.value() == ONLY:
            return queryset.only_guests()
        return queryset.with_guests() if self.value() == TOO else queryset


class ActiveFilter(BySeenFilter):
    """Active sessions, or those that were seen in the last hour or day."""

    title = pgettext_lazy("filter by", "last seen")
    parameter_name = ACTIVE
    texts = {
        "5m": gettext_lazy("Active: in the last 5 minutes"),
        "1h": gettext_lazy("In the last hour"),
        "1d": gettext_lazy("In the last day"),
    }
    without = gettext_lazy("All")

    def queryset(self, request: HttpRequest, queryset: SessionQuerySet) -> SessionQuerySet:  # type: ignore[override]
        value = self.value() or ""
        return queryset.active(SECONDS[value]) if value in SECONDS else queryset


class StaffFilter(SimpleListFilter):
    """Sessions of staff. Only for administrators who may see users: it reveals a field of users."""

    title = pgettext_lazy("filter by", "staff status")
    parameter_name = STAFF

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        of_users = users_admin(request, model_admin.admin_site)
        if of_users is None or not users_have("is_staff"):
            return []
        self.users = of_users.get_queryset(request)
        return [("true", gettext_lazy("Staff only"))]

    def queryset(self, request: HttpRequest, queryset: SessionQuerySet) -> SessionQuerySet:  # type: ignore[override]
        if self.value() != "true":
            return queryset
        return queryset.of_users(user_ids_for(request, self.users.filter(is_staff=True).order_by("pk"), queryset))


class ClientFilter(SimpleListFilter):
    """Sessions of a network, browser or system. A link or a search may name one that is not among the choices."""

    names: Sequence[str] = ()

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [(name, name) for name in dict.fromkeys([*self.names, self.name]) if name]

    @property
    def name(self) -> str:
        return (self.value() or "").strip()[:NAME_MAX]


class NetworkFilter(ClientFilter):
    """Sessions from a list of networks that the setting NETWORKS names. A link may also name a network."""

    title = pgettext_lazy("filter by", "network")
    parameter_name = NETWORK

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        self.names = list(conf.NETWORKS)
        return super().lookups(request, model_admin)

    def queryset(self, request: HttpRequest, queryset: SessionQuerySet) -> SessionQuerySet:  # type: ignore[override]
        if not self.name:
            return queryset
        try:
            return queryset.of_network(self.name)
        except NetworkListError as error:
            logger.error("A list of networks can't be used: %s", error)
            text = gettext("The list of networks “%(name)s” can't be used. The log says why.")
        except ValueError:
            text = gettext("“%(name)s” is neither a network nor the name of a list.")
        if request.method == "GET":
            messages.error(request, text % {"name": self.name}, fail_silently=True)
        return queryset.none()


class BrowserFilter(ClientFilter):
    """Sessions of a browser, or of a version of it."""

    title = pgettext_lazy("filter by", "browser")
    parameter_name = BROWSER
    names = BROWSERS

    def queryset(self, request: HttpRequest, queryset: SessionQuerySet) -> SessionQuerySet:  # type: ignore[override]
        return queryset.of_browser(self.name) if self.name else queryset


class SystemFilter(ClientFilter):
    """Sessions of an operating system."""

    title = pgettext_lazy("filter by", "operating system")
    parameter_name = SYSTEM
    names = SYSTEMS

    def queryset(self, request: HttpRequest, queryset: SessionQuerySet) -> SessionQuerySet:  # type: ignore[override]
        return queryset.of_system(self.name) if self.name else queryset


class DeviceBoundFilter(SimpleListFilter):
    """Sessions that are bound to a device, or those that are not. Only on sites that bind sessions."""

    title = pgettext_lazy("filter by", "device")
    parameter_name = DEVICE_BOUND

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("true", gettext_lazy("Bound to its device")), ("false", gettext_lazy("Not bound to a device"))]

    def queryset(self, request: HttpRequest, queryset: SessionQuerySet) -> SessionQuerySet:  # type: ignore[override]
        value = self.value()
        return queryset.device_bound(is_bound=value == "true") if value in ("true", "false") else queryset


class UserFilter(ListFilter):
    """Sessions of some users. Links lead here: a list of all users would be too long to choose from."""

    title = pgettext_lazy("filter by", "user")
    parameter_name = USER  # django-unfold asks every filter for it.

    def __init__(
        self, request: HttpRequest, params: dict[str, list[str]], model: type[Model], model_admin: ModelAdmin[Any]
    ) -> None:
        super().__init__(request, params, model, model_admin)
        self.user_ids = params.pop(USER, [])[:USERS_MAX]
        self.request, self.site, self.shown_ids = request, model_admin.admin_site, self.user_ids[:NAMES_MAX]
        self.named = findable_users(request, self.site, set(self.shown_ids)) if self.user_ids else {}
        if self.user_ids:
            self.used_parameters[USER] = self.user_ids

    def has_output(self) -> bool:
        return bool(self.user_ids)

    def expected_parameters(self) -> list[str | None]:
        return [USER]

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        query = changelist.get_query_string(remove=[USER])
        yield {"selected": False, "query_string": query, "display": gettext("All")}
        named = self.users_to_name(changelist)
        names = [name_among(named, user_id) for user_id in self.shown_ids]
        more = ["…"] if len(self.user_ids) > len(names) else []
        yield {"selected": True, "query_string": changelist.get_query_string(), "display": ", ".join(names + more)}

    def users_to_name(self, changelist: ChangeList) -> dict[str, Any]:
        """Return the users whom the filter names, by primary key."""
        # The users of the listed sessions were fetched with the list.
        return self.named | {row.user_id: row.user for row in changelist.result_list if row.user}

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.of_users(self.user_ids) if self.user_ids else queryset


def selected_choices(changelist: ChangeList, *, but: str = "") -> list[str]:
    """Return the selected choices of the filters, without the first choice of each, and without the filter ``but``."""
    return [
        str(choice["display"])
        for spec in changelist.filter_specs
        if but not in spec.expected_parameters()
        for number, choice in enumerate(spec.choices(changelist))
        # The first choice of each filter is "All", or "Signed in".
        if choice["selected"] and number
    ]


def user_ids_for(request: HttpRequest, users: QuerySet[Any], sessions: SessionQuerySet) -> list[str]:
    """
    Return the ids of up to 1 000 ``users`` as sessions hold them. If there are more, a message says so.

    If ``sessions`` are limited to some users, other users are left out first.
    """
    kept = sessions.session_filter.user_ids
    if kept is not None:
        return list(users_by_id(set(kept), among=_only_keys(users)))
    text = gettext("More than %(limit)d users match. The sessions of the first %(limit)d are listed.")
    return first_user_ids(request, users, text)


def first_user_ids(request: HttpRequest, users: QuerySet[Any], text: str) -> list[str]:
    """Return the ids of the first 1 000 ``users``. If there are more, the message ``text`` says so."""
    found = list(_only_keys(users)[: USERS_MAX + 1])
    if len(found) > USERS_MAX and request.method == "GET":
        messages.warning(request, text % {"limit": USERS_MAX}, fail_silently=True)
    return [user_id_of(user) for user in found[:USERS_MAX]]


def _only_keys(users: QuerySet[Any]) -> QuerySet[Any]:
    # Joins and prefetches of the admin of users are not needed here.
    return users.select_related(None).prefetch_related(None).only("pk")


def search_users(request: HttpRequest, site: AdminSite, term: str) -> QuerySet[Any]:
    """
    Search for users by ``term``, as the admin of users does.

    Administrators who may not see users find them by user name only. Users whom a ``get_queryset()`` of the admin of
    users leaves out are not found.
    """
    of_users, registered = users_admin(request, site), site._registry.get(get_user_model())
    users: QuerySet[Any] = get_user_model()._base_manager.all()
    if registered is not None and (of_users is not None or leaves_out_users(registered)):
        users = registered.get_queryset(request)
    if of_users is not None and of_users.get_search_fields(request):
        users, _ = of_users.get_search_results(request, users, term)
    else:
        # An administrator who may not see users could guess other fields letter by letter.
        users = users.filter(**{f"{get_user_model().USERNAME_FIELD}__icontains": term})
    return users.order_by("pk")


def searched_fields(request: HttpRequest, site: AdminSite) -> str:
    """Return the names of the fields that :func:`search_users` compares, with commas."""
    of_users = users_admin(request, site)
    user_model = get_user_model()
    fields = (of_users.get_search_fields(request) if of_users else ()) or (user_model.USERNAME_FIELD,)
    names = dict.fromkeys(_search_field_name(user_model, str(field)) for field in fields)
    return ", ".join(name for name in names if name)


def _search_field_name(model: type[Model], search_field: str) -> str:
    # The first character and the last part may name a comparison.
    lookup = search_field.lstrip("^=@")
    while lookup:
        try:
            field = get_fields_from_path(model, lookup)[-1]
        except (FieldDoesNotExist, NotRelationField):
            lookup = lookup.rpartition(LOOKUP_SEP)[0]
        else:
            return str(getattr(field, "verbose_name", ""))
    return ""
