"""Where an administrator returns to from the pages that end sessions, and links to the page that asks first."""

from __future__ import annotations

from typing import NamedTuple

from django.contrib.admin.sites import AdminSite
from django.contrib.admin.utils import quote, unquote
from django.contrib.auth import get_user_model
from django.http import HttpRequest, QueryDict
from django.urls import NoReverseMatch, reverse

from django_redsess.models import OnlineSession

FILTERS = "_changelist_filters"
"""The parameter with the query string of the list to return to. Django's admin has the same name for it."""

PAGE = "_return_to"
"""The parameter that names another page to return to: the list of users, or a user's page."""

FILTERS_MAX = 2000
"""A longer query string is dropped: web servers refuse long URLs."""

USERS, USER = "users", "user:"


class ReturnPage(NamedTuple):
    """
    The page to return to.

    ``filters`` is the query string of its list. ``page`` is ``""`` for the list of sessions, ``"users"`` for the list
    of users, and ``"user:"`` with the primary key for a user's page. Both may come from a URL: they never name another
    page than these.
    """

    filters: str = ""
    page: str = ""

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of a URL, or the hidden fields of a form, that :func:`return_page_of` reads."""
        return {name: value for name, value in {FILTERS: self.filters, PAGE: self.page}.items() if value}

    def url(self, site: AdminSite) -> str:
        """Return the URL of the page in ``site``."""
        users = get_user_model()._meta
        try:
            if self.page.startswith(USER):
                url = _reverse(site, f"{users.app_label}_{users.model_name}_change", quote(self.page[len(USER) :]))
                # A user's page carries the query string of the list that it was reached from.
                return _with_query(url, _encoded({FILTERS: self.filters}) if self.filters else "")
            if self.page == USERS:
                return _with_query(_reverse(site, f"{users.app_label}_{users.model_name}_changelist"), self.filters)
        except NoReverseMatch:  # No such page, or users have none in this site.
            return _url_of_list(site)
        return _with_query(_url_of_list(site), self.filters)


def return_page_of(request: HttpRequest) -> ReturnPage:
    """
    Return the page to return to.

    From a list it is that list as ``request`` shows it. From a session's page it is the list that the page was reached
    from. From a user's page it is that page. The pages that ask and end pass on what they came with.
    """
    match = request.resolver_match
    users, sessions = get_user_model()._meta, OnlineSession._meta
    of_user = f"{users.app_label}_{users.model_name}"
    lists = {f"{of_user}_changelist": USERS, f"{sessions.app_label}_{sessions.model_name}_changelist": ""}
    name = match.url_name if match else None
    if name in lists:
        return ReturnPage(_checked(request.GET.urlencode()), lists[name])
    given = request.POST if request.method == "POST" else request.GET
    filters = _checked(given.get(FILTERS, ""))
    if match and name == f"{of_user}_change":
        return ReturnPage(filters, USER + unquote(match.kwargs["object_id"]))
    return ReturnPage(filters, given.get(PAGE, "")[:FILTERS_MAX])


def end_url(request: HttpRequest, site: AdminSite, *, sid: str | None = None, query: str | None = None) -> str:
    """
    Return the URL of the page that asks whether to end the session ``sid``.

    Without ``sid``, it asks about all sessions that match ``query``: a query string of the list. Without both, about
    everyone's. It returns to the page that ``request`` shows.
    """
    parameters = QueryDict(query or "", mutable=True)
    if sid is not None:
        parameters["sid"] = sid
    for name, value in return_page_of(request).parameters.items():
        parameters[name] = value
    return _with_query(_reverse(site, "django_redsess_onlinesession_confirm"), parameters.urlencode())


def without_return_page(query: QueryDict) -> str:
    """Return the query string of ``query`` without the parameters that say where to return to."""
    kept = query.copy()
    for name in (FILTERS, PAGE):
        kept.pop(name, None)
    return kept.urlencode()


def _checked(query: str) -> str:
    # Encoded again, it is a query string whatever it was.
    return QueryDict(query).urlencode() if len(query) <= FILTERS_MAX else ""


def _encoded(parameters: dict[str, str]) -> str:
    query = QueryDict(mutable=True)
    query.update(parameters)
    return query.urlencode()


def _with_query(url: str, query: str) -> str:
    return f"{url}?{query}" if query else url


def _url_of_list(site: AdminSite) -> str:
    return _reverse(site, "django_redsess_onlinesession_changelist")


def _reverse(site: AdminSite, name: str, *args: str) -> str:
    return reverse(f"admin:{name}", args=args, current_app=site.name)
