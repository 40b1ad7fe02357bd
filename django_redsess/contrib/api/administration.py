"""
Everybody's sessions, for programs of administrators: by the site's rules, with lines in the admin's histories.

Searching, ending and the lines in the histories are the code of the admin's pages. An administrator must have access to
each admin site that has these pages. The permissions of a site's own ``ModelAdmin`` do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import wraps
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from django.contrib.admin.sites import AdminSite
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import HttpRequest
from ninja import Path, Query, Router

from django_redsess import online
from django_redsess.admin import OnlineSessionAdmin, blocking, ending, filters
from django_redsess.admin.access import Access, named_users, users_admin
from django_redsess.admin_sites import mounted_sites
from django_redsess.contrib.api.authentication import for_asker, own_sid, refusal_of
from django_redsess.contrib.api.own import require_password
from django_redsess.contrib.api.problems import ProblemError, unprocessable
from django_redsess.contrib.api.schemas import (
    Block,
    BlockUser,
    Counts,
    Ended,
    EndedSessions,
    EndQuery,
    EndSessions,
    NewBlock,
    Session,
    SessionId,
    SessionList,
    SessionsQuery,
    UserId,
    UserSessionsQuery,
    answers,
)
from django_redsess.models import OnlineSession
from django_redsess.online.blocking import LONGEST
from django_redsess.online.fields import describe_block, describe_sessions
from django_redsess.online.labels import server_time
from django_redsess.online.listing import Position, position_of
from django_redsess.online.searching import SCAN_LIMIT
from django_redsess.permissions import rules, users_have
from django_redsess.problems import (
    NO_SUCH_BLOCK,
    NO_SUCH_PAGE,
    NO_SUCH_SESSION,
    NO_SUCH_USER,
    TOO_MANY_TO_COUNT,
    WRONG_VALUE,
)
from django_redsess.querysets import SessionQuerySet, users_by_id
from django_redsess.session.store import user_id_of

PositionT = TypeVar("PositionT")

router = Router(tags=["Everyone's sessions"])

NEEDS = "This needs a member of staff with the permission {}."
ENDING = "This needs the permission django_redsess.end_onlinesession."
BLOCKING = "This needs the permission django_redsess.block_user."
NO_SESSION, NO_BLOCK = "There is no session with this id.", "This user is not blocked."


ROWS_AT_ONCE = 500
"""Rows per read, if a rule is called for each row."""


def sites_with(request: HttpRequest, model: type[Model]) -> list[AdminSite]:
    """Return the admin sites in this site's URLs with pages of ``model``. Raises ProblemError if there are none."""
    sites = mounted_sites(model, request)
    if not sites:
        raise ProblemError(NO_SUCH_PAGE, f"The admin of this site has no page of {model._meta.verbose_name_plural}.")
    return sites


@contextmanager
def administrating(
    request: HttpRequest, sites: Iterable[AdminSite], permission: str, *, may_see: bool
) -> Iterator[None]:
    """
    Return a context in which code of the admin handles ``request``.

    Raises PermissionDenied without access to each of ``sites``, or without ``may_see``. Its text names ``permission``.
    A project's own admin site may require more than Django's, such as a second factor. Messages are switched off
    within: the admin's code adds some, and no page would show them.
    """
    refusal = refusal_of(sites, request)
    _require(refusal is None and may_see, refusal or NEEDS.format(permission))
    kept = request.__dict__.pop("_messages", None)
    try:
        yield
    finally:
        if kept is not None:
            request.__dict__["_messages"] = kept


def _for_administrator(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Call ``operation`` for an administrator, whose rights it gets as ``request.access``: see :class:`Access`."""

    @wraps(operation)
    def for_administrator(request: Any, **asked: Any) -> Any:
        sites = sites_with(request, OnlineSession)
        # Not the site's own ModelAdmin: its rules are for its pages.
        request.access = Access(OnlineSessionAdmin(OnlineSession, sites[0]), request)
        permission = "django_redsess.view_onlinesession"
        with administrating(request, sites, permission, may_see=request.access.may_see()):
            return operation(request, **asked)

    return for_administrator


router.add_decorator(_for_administrator)
router.add_decorator(for_asker)


@router.get("sessions", response=answers(SessionList, 403, 414))
def list_sessions(request: Any, asked: Query[SessionsQuery]) -> Any:
    """
    List sessions.

    Without parameters, all sessions that are signed in, the newest sign-ins first. Needs the permission
    `view_onlinesession`.
    """
    return _session_list(request, asked, _filtered_sessions(request, asked))


@router.get("users/{redsess_user_id:id}/sessions", response=answers(SessionList, 403))
def list_user_sessions(request: Any, id: Path[UserId], asked: Query[UserSessionsQuery]) -> Any:
    """
    List the sessions of a user.

    An unknown user has none. Needs the permission `view_onlinesession`.
    """
    # No 404, which would tell which ids exist.
    found = _ordered_sessions(asked, request.access.sessions().of_users([id]))
    return _session_list(request, asked, found, about=id)


def _session_list(request: Any, asked: UserSessionsQuery, matching: SessionQuerySet, about: str = "") -> dict[str, Any]:
    if matching.sids is None and matching.session_filter.needs_search:
        return _search_list(request, asked, matching)
    position = asked.read_cursor(2, about)
    page = read_visible_page(
        matching.rows_after,
        Position(*position) if position else None,
        asked.limit,
        may_see=_rule_for_each(request),
        position_of=lambda row: position_of(row.session, by_seen=matching.by_seen),
    )
    next_page = asked.make_cursor(page.last, about)
    return {
        "sessions": _describe_visible(request, page.rows),
        "next_cursor": next_page,
        "looked_through": page.looked_through,
    }


class VisiblePage(NamedTuple):
    """
    A page of a list.

    ``last`` is the position of its last row, None on the last page. ``looked_through`` is set if the search stopped
    because too many rows in sequence are hidden: others may follow.
    """

    rows: list[Any]
    last: Any
    looked_through: dict[str, Any] | None = None


def read_visible_page(
    read_after: Callable[[PositionT | None, int], tuple[Sequence[Any], PositionT | None]],
    position: PositionT | None,
    limit: int,
    *,
    may_see: Callable[[Any], bool] | None,
    position_of: Callable[[Any], PositionT],
) -> VisiblePage:
    """
    Return up to ``limit`` rows after ``position`` that ``may_see`` allows.

    ``read_after`` takes a position and a limit. It returns up to so many rows after the position, and the position of
    the last one, None if no others follow. ``may_see`` is None if no rule is called for each row: then one page is
    read. Otherwise pages are read until this one is full, and ``last`` is always the position of a row that is shown.
    So neither a cursor nor a short page reveals a hidden row. The search stops after 10 000 rows.
    """
    if may_see is None:
        rows, last = read_after(position, limit)
        return VisiblePage(list(rows), last)
    seen, count = list[Any](), 0
    while True:
        # One row more than the page shows whether others follow.
        rows, position = read_after(position, ROWS_AT_ONCE)
        seen += filter(may_see, rows)
        count += len(rows)
        if len(seen) > limit or position is None or count >= SCAN_LIMIT:
            break
    page, is_cut = seen[:limit], len(seen) <= limit and position is not None
    last = position_of(page[-1]) if page and (is_cut or len(seen) > limit) else None
    return VisiblePage(page, last, {"count": SCAN_LIMIT, "is_all": False} if is_cut else None)


def _search_list(request: Any, asked: UserSessionsQuery, matching: SessionQuerySet) -> dict[str, Any]:
    # No list has these sessions together. Each page searches again, and skips those of earlier pages.
    [offset] = asked.read_cursor(1) or [0]
    may_see, end = _rule_for_each(request), offset + asked.limit
    if may_see is None:
        count, rows = matching.count(), list(matching[offset:end])
    else:
        seen = list(filter(may_see, chain.from_iterable(matching.in_pages(ROWS_AT_ONCE))))
        count, rows = len(seen), seen[offset:end]
    looked = matching.looked_through
    if looked and looked.is_all and may_see is not None:
        # The count would include hidden sessions.
        looked = None
    return {
        "sessions": _describe_visible(request, rows),
        "next_cursor": asked.make_cursor((end,) if end < min(count, SCAN_LIMIT) else None),
        "looked_through": looked and {"count": looked.count, "is_all": looked.is_all},
    }


def _filtered_sessions(request: Any, asked: SessionsQuery) -> SessionQuerySet:
    """Return the sessions that match the query, among those that the administrator may see."""
    found: SessionQuerySet = request.access.sessions()
    if asked.guests == "only" and asked.user:
        raise ProblemError(WRONG_VALUE, "guests=only and user can't be given together: guests are not users.")
    if asked.guests:
        found = found.only_guests() if asked.guests == "only" else found.with_guests()
    if asked.active:
        found = found.active(filters.SECONDS[asked.active])
    if asked.user:
        found = found.of_users(asked.user)
    if asked.staff:
        found = found.of_users(filters.user_ids_for(request, _staff_users(request), found))
    if asked.network:
        try:
            found = found.of_network(asked.network)
        except ValueError:
            rule = "an address, a network such as 198.51.100.0/24, or the name of a list of networks that can be used"
            raise unprocessable("network", rule) from None
    if asked.browser:
        found = found.of_browser(asked.browser)
    if asked.system:
        found = found.of_system(asked.system)
    if asked.device_bound:
        found = found.device_bound(is_bound=asked.device_bound == "true")
    found = _ordered_sessions(asked, found)
    if asked.q:
        found, _ = request.access.admin.get_search_results(request, found, asked.q)
    return found


def _ordered_sessions(asked: UserSessionsQuery, found: SessionQuerySet) -> SessionQuerySet:
    only_by_seen = found.session_filter.only_by_seen
    if asked.order is None:
        return found.order_by("-last_seen_at") if only_by_seen else found
    if only_by_seen and asked.order.endswith("created_at"):
        raise unprocessable("order", "last_seen_at or -last_seen_at, with guests or active")
    return found.order_by(asked.order)


def _staff_users(request: Any) -> Any:
    # "Staff" is a field of users. Only administrators who may see users may ask for it.
    of_users = users_admin(request, request.access.site)
    if of_users is None or not users_have("is_staff"):
        raise PermissionDenied("The parameter staff needs the permission to view users.")
    return of_users.get_queryset(request).filter(is_staff=True).order_by("pk")


def _describe_visible(request: HttpRequest, rows: Iterable[OnlineSession]) -> list[dict[str, Any]]:
    rows = list(rows)
    users = {row.session.user_id: row.user for row in rows if row.user}
    return describe_sessions([row.session for row in rows], users, own_sid(request))


def _rule_for_each(request: Any) -> Callable[[OnlineSession], bool] | None:
    """Return the site's rule that must be called for each session of a list. None if there is none."""
    return request.access.may_see if rules().sees_by_own_rule else None


@router.post("sessions/end", response=answers(EndedSessions, 403, 413, 415))
def end_sessions(request: Any, body: EndSessions) -> Any:
    """End sessions by their ids. Needs the permission `end_onlinesession`."""
    _require(request.access.may_end(), ENDING)
    ids = list(dict.fromkeys(body.ids))
    found = request.access.look_up(*(each.sid for each in online.find(ids, follow=True)))
    if ending.include_other_own(request.access, found):
        require_password(request)
    sids, ended = ending.end_found(request.access, found, body.to_users, body.internal_note)
    of_ended, of_found = {each.sid for each in ended}, {each.sid for each in found}
    return {
        "ended": sorted(of_ended),
        "refused": sorted(of_found - set(sids)),
        # Some may have ended just now, or may belong to a superuser now.
        "gone": sorted((set(ids) - of_found) | (set(sids) - of_ended)),
        "may_return": ended.may_return,
    }


@router.get("sessions/{id}", response=answers(Session, 403, 404))
def get_session(request: Any, id: Path[SessionId]) -> Any:
    """Show a session. Needs the permission `view_onlinesession`."""
    return _describe_visible(request, [_visible_session(request, id)])[0]


@router.delete("sessions/{id}", response=answers(None, 403, 404))
def end_session(request: Any, id: Path[SessionId], asked: Query[EndQuery]) -> None:
    """
    End a session.

    A session with a new key is found by its earlier id, too. Your own session ends, too. Needs the permission
    `end_onlinesession`.
    """
    _require(request.access.may_end(), ENDING)
    session = _visible_session(request, id, follow=True)
    if ending.include_other_own(request.access, [session]):
        require_password(request)
    sids, ended = ending.end_found(request.access, [session], asked.to_users, asked.internal_note)
    _require(sids, "You may not end this session.")
    if not ended:
        raise ProblemError(NO_SUCH_SESSION, NO_SESSION)


@router.delete("users/{redsess_user_id:id}/sessions", response=answers(Ended, 403))
def end_user_sessions(request: Any, id: Path[UserId], asked: Query[EndQuery]) -> Any:
    """
    End all sessions of a user.

    Your present session continues. Needs the permission `end_onlinesession`.
    """
    _require(request.access.may_end(), ENDING)
    if ending.match_other_own(request.access, request.access.sessions().of_users([id])):
        require_password(request)
    ended = ending.end_sessions_of_user(request.access, id, asked.to_users, asked.internal_note)
    return {"ended": len(ended), "may_return": ended.may_return}


@router.get("counts", response=answers(Counts, 403))
def count_sessions(request: Any) -> Any:
    """
    Count the sessions that you may see.

    If the site has a rule for each session, at most 10 000 are counted: above that, the answer is 403 with the type
    `too-many-to-count`. Needs the permission `view_onlinesession`.
    """
    listed = request.access.sessions()
    counted = {"signed_in": listed, "guests": listed.only_guests(), "active": listed.active()}
    return {name: _count_visible(request, sessions) for name, sessions in counted.items()}


def _count_visible(request: Any, sessions: SessionQuerySet) -> int:
    may_see = _rule_for_each(request)
    if may_see is None:
        return sessions.count()
    looked = seen = 0
    for rows in sessions.in_pages(ROWS_AT_ONCE):
        looked, seen = looked + len(rows), seen + sum(map(may_see, rows))
        if looked > SCAN_LIMIT:
            text = (
                f"The rule may_see() of this site is asked about each session, and at most {SCAN_LIMIT:,} are counted"
            )
            raise ProblemError(TOO_MANY_TO_COUNT, f"{text}. A rule visible_sessions() has no such limit.")
    return seen


@router.get("users/{redsess_user_id:id}/block", response=answers(Block, 403, 404))
def get_block(request: Any, id: Path[UserId]) -> Any:
    """Show the block of a user. 404 if the user is not blocked. Needs the permission `block_user`."""
    _require(rules().may_see_block(request.user), BLOCKING)
    user = _find_user(id)
    may_see = rules().may_see_block(request.user, user) and request.access.may_end_all_of(user)
    _require(may_see, "You may not see the block of this user.")
    block = online.block_of(user)
    if block is None:
        raise ProblemError(NO_SUCH_BLOCK, NO_BLOCK)
    return _describe_block(request, block, user)


@router.put("users/{redsess_user_id:id}/block", response=answers(NewBlock, 403, 404, 413, 415))
def block_user(request: Any, id: Path[UserId], body: BlockUser) -> Any:
    """
    Block a user, and end all sessions of the user.

    Needs the permissions `block_user` and `end_onlinesession`.
    """
    _require(rules().may_block(request.user), BLOCKING)
    _require(request.access.may_end(), ENDING)
    user = _find_user(id)
    _require(_may_block(request, user), "You may not block this user.")
    longest = rules().longest_block(request.user, user)
    # Clocks differ: a week by a client's fast clock is allowed.
    if body.until - server_time() > longest + timedelta(hours=1):
        if longest == LONGEST:
            raise unprocessable("until", f"at most {longest.days} days ahead. Deactivate the account instead")
        raise PermissionDenied(f"You may block this user for at most {longest.days} days.")
    try:
        ended = ending.block_user_until(request.access, user, body.until, body.to_users, body.internal_note)
    except ValueError:
        raise unprocessable("until", "ahead, by the clock of the server that stores the sessions") from None
    block = online.Block(id, body.until, body.to_users, user_id_of(request.user), body.internal_note)
    return {**_describe_block(request, block, user), "ended": ended}


@router.delete("users/{redsess_user_id:id}/block", response=answers(None, 403, 404))
def unblock_user(request: Any, id: Path[UserId]) -> None:
    """Lift the block of a user. The user can sign in again. Needs the permission `block_user`."""
    _require(rules().may_block(request.user), BLOCKING)
    user = _find_user(id)
    _require(_may_block(request, user), "You may not lift the block of this user.")
    if not blocking.lift_user_block(request, user):
        raise ProblemError(NO_SUCH_BLOCK, NO_BLOCK)


def _require(allowed: object, otherwise: str) -> None:
    if not allowed:
        raise PermissionDenied(otherwise)


def _describe_block(request: Any, block: online.Block, user: AbstractBaseUser) -> dict[str, Any]:
    readable = block._replace(internal_note=request.access.readable_note(block, block.by, user))
    names = named_users(request, request.access.site, {block.user_id, block.by} - {""})
    return describe_block(readable, names)


def _may_block(request: Any, user: AbstractBaseUser) -> bool:
    return rules().may_block(request.user, user) and bool(request.access.may_end_all_of(user))


def _visible_session(request: Any, sid: str, *, follow: bool = False) -> OnlineSession:
    sids = [each.sid for each in online.find([sid], follow=True)] if follow else [sid]
    found: list[OnlineSession] = request.access.look_up(*sids)
    if not found:
        raise ProblemError(NO_SUCH_SESSION, NO_SESSION)
    return found[0]


def _find_user(user_id: str) -> AbstractBaseUser:
    user = users_by_id({user_id}).get(user_id)
    if user is None:
        raise ProblemError(NO_SUCH_USER, "There is no user with this id.")
    return user
