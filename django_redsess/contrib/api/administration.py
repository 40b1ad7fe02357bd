"""
Everybody's sessions, for programs of administrators: by the rules of this site, with lines in the admin's histories.

The pages of the admin share how sessions are searched and ended, and what the histories say. What a site's own
``ModelAdmin`` allows is not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, get_args

from django.contrib import admin
from django.contrib.admin.sites import AdminSite, all_sites
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import HttpRequest
from django.utils.module_loading import import_string

from django_redsess import online
from django_redsess.admin import blocking, filters, own_sessions
from django_redsess.admin.question import SIDS_MAX
from django_redsess.admin.users import users_admin
from django_redsess.contrib.api.cursors import cursor_of, place_of
from django_redsess.contrib.api.descriptions import described
from django_redsess.contrib.api.endpoints import Method, endpoint
from django_redsess.contrib.api.own import ask_again, sid_of
from django_redsess.contrib.api.parameters import Body, Json, Parameters
from django_redsess.contrib.api.problems import Problem, unprocessable
from django_redsess.models import OnlineSession
from django_redsess.online.blocking import LONGEST
from django_redsess.online.cursor import Place
from django_redsess.online.export import iso
from django_redsess.online.listing import USERS_MAX
from django_redsess.online.searching import SCAN_LIMIT
from django_redsess.permissions import rules, users_have
from django_redsess.querysets import SessionQuerySet, users_by_id
from django_redsess.session.address_index import network_of

FILTERS = ("q", "guests", "active", "staff", "network", "browser", "system", "order", "limit", "cursor")


def page_in_admin(model: type[Model], ours: str) -> Any:
    """
    Return our page of ``model`` in the first admin site that has one. Django's own site comes first.

    It is not the site's own ``ModelAdmin``, whose rules are for its pages. ``ours`` is the path of its class: importing
    it registers the page, and a site may have none.
    """
    sites: list[AdminSite] = [admin.site, *sorted(all_sites, key=lambda site: site.name)]
    for site in sites:
        if site.is_registered(model):
            return import_string(ours)(model, site)
    raise Problem(404, f"The admin of this site has no page of {model._meta.verbose_name_plural}.")


@contextmanager
def administrating(request: HttpRequest, site: AdminSite, *, may_see: bool) -> Iterator[None]:
    """
    Let the admin's code answer ``request``. Raises PermissionDenied for who does not get into ``site``, or may not see.

    Meanwhile it takes no messages: that code adds some for who reads a page, and here nobody would.
    """
    if not (site.has_permission(request) and may_see):
        raise PermissionDenied("This takes a member of staff with the permission to view it.")
    kept = request.__dict__.pop("_messages", None)
    try:
        yield
    finally:
        if kept is not None:
            request.__dict__["_messages"] = kept


def _of_sessions(method: Callable[..., Json | None]) -> Method:
    """Call ``method`` with the request of an administrator, our admin of sessions, and what is in the path."""

    @wraps(method)
    def for_administrator(request: HttpRequest, **path: str) -> Json | None:
        sessions_admin = page_in_admin(OnlineSession, "django_redsess.admin.OnlineSessionAdmin")
        with administrating(request, sessions_admin.admin_site, may_see=rules().may_see(request.user)):
            return method(request, sessions_admin, **path)

    return for_administrator


@_of_sessions
def list_sessions(request: HttpRequest, sessions_admin: Any) -> Json:
    """List sessions, as the admin's page does with the same filters."""
    asked = Parameters(request, *FILTERS, several=("user",))
    return _listed(request, sessions_admin, asked, asked.texts("user", USERS_MAX))


@_of_sessions
def list_of_user(request: HttpRequest, sessions_admin: Any, user_id: str) -> Json:
    """List the sessions of a user. An unknown one has none: nobody learns here which ids there are."""
    asked = Parameters(request, "order", "limit", "cursor", about=user_id)
    return _listed(request, sessions_admin, asked, [user_id])


def _listed(request: HttpRequest, sessions_admin: Any, asked: Parameters, user_ids: Sequence[str]) -> Json:
    limit, matching = asked.limit(), _matching(request, sessions_admin, asked, user_ids)
    if matching.sids is None and matching.session_filter.names_client:
        return _searched(request, sessions_admin, asked, matching, limit)
    place = place_of(asked, int, str)
    rows, last = matching.after(Place(*place) if place else None, limit)  # type: ignore[arg-type]
    return {
        "sessions": _described(request, rows),
        "next": cursor_of(asked, last),
        "looked_through": None,
    }


def _searched(
    request: HttpRequest, sessions_admin: Any, asked: Parameters, matching: SessionQuerySet, limit: int
) -> Json:
    # No list has these together. Each page searches again, and skips what the pages before it had.
    [offset] = place_of(asked, int) or [0]
    if not isinstance(offset, int) or offset >= SCAN_LIMIT:
        raise Problem(422, f"A search reaches {SCAN_LIMIT} sessions. Narrow it.")
    count, end = matching.count(), offset + limit
    looked = matching.looked_through
    return {
        "sessions": _described(request, matching[offset:end]),
        "next": cursor_of(asked, (end,) if end < min(count, SCAN_LIMIT) else None),
        "looked_through": looked and {"count": looked.count, "is_all": looked.is_all},
    }


def _matching(request: HttpRequest, sessions_admin: Any, asked: Parameters, user_ids: Sequence[str]) -> SessionQuerySet:
    """Return the sessions that the filters of the query keep, among those that the administrator may see."""
    found = _visible(request)
    guests, active = asked.choice("guests", ("true", "only")), asked.choice("active", filters.SECONDS)
    if guests == "only" and user_ids:
        raise Problem(422, "guests=only and user can't be given together: guests are not users.")
    if guests:
        found = found.only_guests() if guests == "only" else found.with_guests()
    if active:
        found = found.active(filters.SECONDS[active])
    if user_ids:
        found = found.of_users(user_ids)
    if asked.choice("staff", ("true",)):
        found = found.of_users(filters.ids_of(request, _staff(request, sessions_admin), found))
    found = _of_client(asked, found)
    if order := asked.choice("order", get_args(online.Order)):
        if found.session_filter.only_by_seen and order.endswith("created_at"):
            raise unprocessable("order", "last_seen_at or -last_seen_at, with guests or active")
        found = found.order_by(order)
    elif found.session_filter.only_by_seen:
        found = found.order_by("-last_seen_at")
    if term := asked.text("q"):
        found, _ = sessions_admin.get_search_results(request, found, term)
    return found


def _staff(request: HttpRequest, sessions_admin: Any) -> Any:
    # Whether somebody is staff is a field of users. It is told to who may see these.
    of_users = users_admin(request, sessions_admin.admin_site)
    if of_users is None or not users_have("is_staff"):
        raise PermissionDenied("staff takes the permission to view users.")
    return of_users.get_queryset(request).filter(is_staff=True).order_by("pk")


def _of_client(asked: Parameters, found: SessionQuerySet) -> SessionQuerySet:
    if network := asked.text("network"):
        if network_of(network) is None:
            raise unprocessable("network", "an address or a network, such as 198.51.100.0/24")
        found = found.of_network(network)
    if browser := asked.text("browser"):
        found = found.of_browser(browser)
    system = asked.text("system")
    return found.of_system(system) if system else found


def _visible(request: HttpRequest) -> SessionQuerySet:
    return rules().visible_sessions(request.user, OnlineSession.online.counting_once())


def _described(request: HttpRequest, rows: Iterable[OnlineSession]) -> list[Json]:
    seen = [row.session for row in rows if rules().may_see(request.user, row)]
    return described(seen, sid_of(request))


@_of_sessions
def describe(request: HttpRequest, sessions_admin: Any, sid: str) -> Json:
    """Describe a session."""
    Parameters(request)
    return _described(request, [_session(request, sid)])[0]


@_of_sessions
def end(request: HttpRequest, sessions_admin: Any, sid: str) -> None:
    """End a session, the administrator's own, too. One that got another key is ended under its new sid."""
    message = Parameters(request, "message").message()
    _require_end(request)
    session = _session(request, sid, follow=True)
    if own_sessions.has_others(request, [session]):
        ask_again(request)
    sids, ended = sessions_admin.end_found(request, [session], message)
    if not sids:
        raise PermissionDenied("You may not end this session.")
    if not ended:
        raise _no_session()


@_of_sessions
def end_many(request: HttpRequest, sessions_admin: Any) -> Json:
    """End the sessions with these ids. Return which have ended, which may not be ended, and which are over."""
    Parameters(request)
    _require_end(request)
    body = Body(request, "ids", "message")
    ids, message = list(dict.fromkeys(body.texts("ids", SIDS_MAX))), body.message()
    found = _look_up(request, [each.sid for each in online.find(ids, follow=True)])
    if own_sessions.has_others(request, found):
        ask_again(request)
    sids, ended = sessions_admin.end_found(request, found, message)
    of_ended, of_found = {each.sid for each in ended}, {each.sid for each in found}
    return {
        "ended": sorted(of_ended),
        "refused": sorted(of_found - set(sids)),
        # Some may have ended just now, or become a superuser's.
        "gone": sorted((set(ids) - of_found) | (set(sids) - of_ended)),
        "may_return": ended.may_return,
    }


@_of_sessions
def end_of_user(request: HttpRequest, sessions_admin: Any, user_id: str) -> Json:
    """End all sessions of a user, but for the administrator's present one."""
    message = Parameters(request, "message").message()
    _require_end(request)
    if own_sessions.has_others_matching(request, _visible(request).of_users([user_id])):
        ask_again(request)
    ended = sessions_admin.end_of_user(request, user_id, message)
    return {"ended": len(ended), "may_return": ended.may_return}


@_of_sessions
def count(request: HttpRequest, sessions_admin: Any) -> Json:
    """Count the sessions that the administrator may see."""
    Parameters(request)
    listed = _visible(request)
    return {
        "signed_in": listed.count(),
        "guests": listed.only_guests().count(),
        "active": listed.active().count(),
    }


@_of_sessions
def describe_block(request: HttpRequest, sessions_admin: Any, user_id: str) -> Json:
    """Describe the block of a user."""
    Parameters(request)
    if not rules().may_see_block(request.user):
        raise PermissionDenied("This takes the permission to block users.")
    user = _user(user_id)
    if not (rules().may_see_block(request.user, user) and rules().may_end_all_of(request.user, user)):
        raise PermissionDenied("You may not see the block of this user.")
    block = online.block_of(user)
    if block is None:
        raise _no_block()
    return _block_described(block)


@_of_sessions
def set_block(request: HttpRequest, sessions_admin: Any, user_id: str) -> Json:
    """Block a user until a time, and end all sessions of the user."""
    Parameters(request)
    _require_block(request)
    _require_end(request)
    body = Body(request, "until", "message")
    until, message, user = body.moment("until"), body.message(), _user(user_id)
    if not _may_block(request, user):
        raise PermissionDenied("You may not block this user.")
    longest = rules().longest_block(request.user, user)
    # Clocks differ: who asks for a week by a clock that is a little fast gets it.
    if until - datetime.now(UTC) > longest + timedelta(hours=1):
        if longest == LONGEST:
            raise unprocessable("until", f"at most {longest.days} days ahead. Deactivate the account instead")
        raise PermissionDenied(f"You may block this user for at most {longest.days} days.")
    try:
        ended = sessions_admin.block(request, user, until, message)
    except ValueError:
        raise unprocessable("until", "ahead, by the clock of the server that stores the sessions") from None
    block = online.Block(user_id, until, message, online.user_id_of(request.user))  # type: ignore[arg-type]
    return {**_block_described(block), "ended": ended}


@_of_sessions
def lift_block(request: HttpRequest, sessions_admin: Any, user_id: str) -> None:
    """Let a user sign in again."""
    Parameters(request)
    _require_block(request)
    user = _user(user_id)
    if not _may_block(request, user):
        raise PermissionDenied("You may not lift the block of this user.")
    if not blocking.lift(request, user):
        raise _no_block()


def _require_end(request: HttpRequest) -> None:
    if not rules().may_end(request.user):
        raise PermissionDenied("This takes the permission to end sessions.")


def _require_block(request: HttpRequest) -> None:
    if not rules().may_block(request.user):
        raise PermissionDenied("This takes the permission to block users.")


def _may_block(request: HttpRequest, user: AbstractBaseUser) -> bool:
    return rules().may_block(request.user, user) and rules().may_end_all_of(request.user, user)


def _look_up(request: HttpRequest, sids: Sequence[str]) -> list[OnlineSession]:
    found = _visible(request).with_guests().filter(sid__in=sids)
    return [session for session in found if rules().may_see(request.user, session)]


def _session(request: HttpRequest, sid: str, *, follow: bool = False) -> OnlineSession:
    sids = [each.sid for each in online.find([sid], follow=True)] if follow else [sid]
    found = _look_up(request, sids)
    if not found:
        raise _no_session()
    return found[0]


def _user(user_id: str) -> AbstractBaseUser:
    user = users_by_id({user_id}).get(user_id)
    if user is None:
        raise Problem(404, "There is no user with this id.")
    return user


def _block_described(block: online.Block) -> Json:
    return {
        "user_id": block.user_id,
        "until": iso(block.until),
        "message": block.message,
        "by": block.by or None,
    }


def _no_session() -> Problem:
    return Problem(404, "There is no session with this id.")


def _no_block() -> Problem:
    return Problem(404, "This user is not blocked.")


sessions = endpoint(GET=list_sessions)
session = endpoint(GET=describe, DELETE=end)
ends = endpoint(POST=end_many)
user_sessions = endpoint(GET=list_of_user, DELETE=end_of_user)
user_block = endpoint(GET=describe_block, PUT=set_block, DELETE=lift_block)
counts = endpoint(GET=count)
