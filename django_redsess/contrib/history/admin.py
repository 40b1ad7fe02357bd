"""The admin's pages of sign-ins: a list, the page of one, and export. Nothing can be changed there. Public."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ERROR_FLAG, PAGE_VAR, SEARCH_VAR, ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect, QueryDict
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.urls import URLPattern, path, reverse
from django.utils import timezone, translation
from django.utils.functional import cached_property
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy, ngettext
from django.views.decorators.http import require_POST, require_safe

from django_redsess.admin import blocking, export, log_entries, pages
from django_redsess.admin import filters as shared_filters
from django_redsess.admin.access import Access, access_to_sessions, named_users, visible_users
from django_redsess.admin.question import ask_before_end
from django_redsess.admin.sessions import SEARCH_MAX
from django_redsess.admin.users import live_urls, name_among, name_of_sign_in, with_readable_notes
from django_redsess.contrib.history import filters
from django_redsess.contrib.history.models import SignIn
from django_redsess.contrib.history.stored_sign_ins import (
    ORDER,
    ended_by,
    past_sign_in,
    sign_ins_of_users,
    sign_ins_url,
)
from django_redsess.online import fields, labels
from django_redsess.online.fields import ExportedRow, exported_row
from django_redsess.online.listing import SIDS_MAX
from django_redsess.online.networks import network_set
from django_redsess.online.sign_ins import sids_of_sign_ins
from django_redsess.past_sign_ins import with_places
from django_redsess.permissions import rules
from django_redsess.session.client import Network, parse_network

__all__ = ["SignInAdmin"]

COUNTED_MAX = 10_000
"""The list has at most this many sign-ins. Older ones are found by date."""

ADDRESSES_MAX = 1000  # At most this many addresses are compared, where several have the same score.
READ_AT_ONCE = 1000  # Rows per batch.

ENDERS_SHOWN = 5
"""A search for users links to the sessions of others that at most this many of the users have ended."""


BLOCKS_SHOWN = 3
"""A search or filter of at most this many users shows who of them is blocked."""


class BlockOfUser(NamedTuple):
    """A user by name: the ``block``, if there is one, and the ``url`` of the page that asks whether to block."""

    name: str
    block: blocking.ShownBlock | None
    url: str


class CappedPaginator(pages.NearestPage):
    """Counts up to 10 000 rows. ``has_more`` tells whether there are more."""

    @cached_property
    def _counted(self) -> int:
        # Without an order, the database need not sort the rows.
        rows = cast("QuerySet[SignIn]", self.object_list)
        return rows.order_by()[: COUNTED_MAX + 1].count()

    @property
    def count(self) -> int:
        return min(self._counted, COUNTED_MAX)

    @property
    def has_more(self) -> bool:
        return self._counted > COUNTED_MAX


@admin.register(SignIn)
class SignInAdmin(pages.ListAdmin):
    """
    The list of sign-ins, and the page of one.

    The rules of this site say who sees and exports which. A subclass may have others for its pages: its
    ``get_queryset()`` also decides what the pages of sessions and users show.
    """

    list_display = ("who", "signed_in", "seen", "ended", "sender")
    list_display_links = ("signed_in",)
    # A hundred rows take twice as long, mostly for their dates.
    list_per_page = 50
    search_fields = ("user",)
    ordering = ORDER
    sortable_by = ()
    actions = None
    paginator = CappedPaginator
    show_full_result_count = False
    list_filter = (
        filters.DatesFilter,
        filters.ActiveOnFilter,
        filters.StateFilter,
        filters.ReasonFilter,
        filters.WhoEndedFilter,
        filters.DeviceFilter,
        filters.UnprovenFilter,
        filters.SignInBrowserFilter,
        filters.SignInSystemFilter,
        filters.SignInUserFilter,
        filters.EndedByFilter,
    )
    empty_value_display = "-"
    fields = ("who", "signed_in_at", "seen_at", "end", "message_read", "sender", "user_agent")
    readonly_fields = (*fields, "unproven", "note", "block")

    class Media:
        css = {"all": ("django_redsess/admin-list.css",)}

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view
        return [
            path("export/", view(require_POST(self.export_view)), name="redsess_history_signin_export"),
            path("end/", view(require_safe(self.end_view)), name="redsess_history_signin_end"),
            *super().get_urls(),
        ]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Deny deletion on our pages, but not on pages that delete users: sign-ins are deleted with their user."""
        match = request.resolver_match
        is_ours = match is None or (match.url_name or "").startswith("redsess_history_signin_")
        return obj is not None and not is_ours

    def has_module_permission(self, request: HttpRequest) -> bool:
        return super().has_module_permission(request) or self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: SignIn | None = None) -> bool:
        """Tell whether the administrator may see sign-ins, or ``obj``, by the rules of this site."""
        return rules().may_see_sign_in(request.user, obj)

    def has_export_permission(self, request: HttpRequest) -> bool:
        """Tell whether the administrator may export the list: all sign-ins that match, in one file."""
        return self.has_view_permission(request) and rules().may_export_sign_ins(request.user)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        context = {
            "has_export_permission": self.has_export_permission(request),
            "export_url": "admin:redsess_history_signin_export",
            "export_query": _list_query(request),
        }
        response = super().changelist_view(request, {**context, **(extra_context or {})})
        changelist = (getattr(response, "context_data", None) or {}).get("cl")
        if changelist is not None:  # Else a redirect.
            self.add_names(request, changelist.result_list)
            self._find_live(request, changelist.result_list)
            response.context_data |= self._list_context(request, changelist)  # type: ignore[attr-defined]
        return response

    def get_queryset(self, request: HttpRequest) -> QuerySet[SignIn]:
        return rules().visible_sign_ins(request.user, super().get_queryset(request))

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        found = super().get_changelist_instance(request)
        found.search_help_text = str(self.search_help_text or self._search_help(request))
        return found

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> SignIn | None:
        found: Any = super().get_object(request, object_id, from_field)
        if found is not None:
            self.add_names(request, [found])
            self._find_live(request, [found])
            found.block_of_user = next(iter(self._blocks(request, [str(found.user_id)])), None)
            found.title = f"{name_among(found.users, str(found.user_id))}, {labels.exactly(found.created_at)}"
        return cast("SignIn | None", found)

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        row = context["original"]
        user_id = str(row.user_id)
        context |= {
            "title": gettext("Sign-in of %(user)s") % {"user": name_among(row.users, user_id)},
            "subtitle": None,
            "block_of_user": row.block_of_user,
            "all_url": sign_ins_url(self.admin_site, user_id),
            "sessions_url": self._sessions_url(request, user_id),
        }
        return super().render_change_form(request, context, *args, **kwargs)

    def get_fields(self, request: HttpRequest, obj: SignIn | None = None) -> Any:
        found, row = list(super().get_fields(request, obj)), cast(Any, obj)
        if row is None:
            return found
        if row.past.internal_note:
            found.insert(found.index("message_read") + 1 if "message_read" in found else len(found), "note")
        if row.block_of_user and row.block_of_user.block:
            found.insert(found.index("who") + 1 if "who" in found else 0, "block")
        return [*found, "unproven"] if row.unproven_at else found

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Redirect to the history of the user, or to the page of the sign-in, which has no history itself."""
        row: Any = self.get_object(request, unquote(object_id))
        if row is None or not self.has_view_permission(request, row):
            return self.redirect_to_list()
        user = visible_users(request, self.admin_site, {str(row.user_id)}).get(str(row.user_id))
        url = pages.admin_url(user, self.admin_site, "history") if user is not None else ""
        return HttpResponseRedirect(url or pages.admin_url(row, self.admin_site))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[SignIn], search_term: str
    ) -> tuple[QuerySet[SignIn], bool]:
        """Find sign-ins from an address or network, or those of the users who match."""
        term = search_term.strip()
        if not term:
            return queryset, False
        if len(term) <= SEARCH_MAX and (network := parse_network(term)):
            return _from_network(queryset, network), False
        if len(term) > SEARCH_MAX:
            return queryset.none(), False
        text = gettext("More than %(limit)d users match. The sign-ins of the first %(limit)d are listed.")
        user_ids = shared_filters.first_user_ids(
            request, shared_filters.search_users(request, self.admin_site, term), text
        )
        request.redsess_found = user_ids  # type: ignore[attr-defined]
        return sign_ins_of_users(queryset, user_ids), False

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        """Send the sign-ins that match the query, in the ``format`` of the form."""
        if not self.has_export_permission(request):
            raise PermissionDenied
        file_format = request.POST.get("format", "")
        listed = self.changelist_of(request, request.GET.urlencode())
        if listed is None or file_format not in ("csv", "json"):
            return HttpResponseBadRequest()
        # Written before the first byte is sent: an aborted download may have part of the data.
        with log_entries.in_language_of_site():
            text = gettext("Exported sign-ins as %(format)s.") % {"format": file_format.upper()}
            log_entries.save_list_entry(request, SignIn, text, export.query_text(request))
        content = export.Content("sign_ins", fields.SIGN_IN, self._export_batches(request, listed.queryset), {})
        return export.file_response(request, "sign-ins-{}", file_format, content)

    def end_view(self, request: HttpRequest) -> HttpResponse:
        """Ask whether to end the sessions of the sign-ins that match the query, up to 1 000."""
        access, listed = self._access_to_end(request), self.changelist_of(request, _list_query(request))
        if access is None or not self.has_view_permission(request):
            raise PermissionDenied
        sids = _live_sids(listed.queryset) if listed is not None and _is_narrowed(listed) else []
        return ask_before_end(access, {"sids": " ".join(sids)})

    def _access_to_end(self, request: HttpRequest) -> Access | None:
        """Return what the administrator may do with online sessions, or None if the administrator may end none."""
        access = access_to_sessions(request, self.admin_site)
        return access if access is not None and access.may_end() else None

    def _end_context(self, request: HttpRequest, changelist: ChangeList) -> dict[str, Any]:
        """Return the link that ends what is listed, and how many sessions it asks about; nothing without a link."""
        if not (_is_narrowed(changelist) and changelist.result_count and self._access_to_end(request)):
            return {}
        query = QueryDict(_list_query(request), mutable=True)
        query.update(pages.ReturnPage(query.urlencode(), f"{pages.LIST_PAGE}redsess_history_signin").parameters)
        return {
            "end_url": reverse("admin:redsess_history_signin_end", current_app=self.admin_site.name, query=query),
            "end_count": min(changelist.result_count, SIDS_MAX),
            "ends_some": changelist.result_count > SIDS_MAX,
        }

    @admin.display(description=gettext_lazy("user"))
    def who(self, row: Any) -> str:
        """Name the user, with a link to all sign-ins of this user."""
        name = format_html("<bdi>{}</bdi>", name_among(row.users, str(row.user_id)))
        return pages.link_html(sign_ins_url(self.admin_site, str(row.user_id)), name)

    @admin.display(description=gettext_lazy("signed in"))
    def signed_in(self, row: Any) -> str:
        return pages.labelled_html(gettext("signed in"), labels.shortly(row.created_at))

    @admin.display(description=gettext_lazy("last seen"))
    def seen(self, row: Any) -> str:
        last_seen_at = row.past.last_seen_at
        return pages.labelled_html(gettext("last seen"), labels.when(last_seen_at) if last_seen_at else "-")

    @admin.display(description=gettext_lazy("ended"))
    def ended(self, row: Any) -> str:
        """Show when the session has ended, why, by whom, and the beginning of the message."""
        end = pages.end_html(row.past, row.live_url)
        if row.past.ended_at is None:
            # It says all, without the label of an end.
            return end
        message = pages.message_html(row.past.message) + pages.note_html(row.past.internal_note, pages.MESSAGE_MAX)
        return pages.labelled_html(
            gettext("ended"), format_html("<div>{}<br>{}{}</div>", end, self._how_ended(row), message)
        )

    @admin.display(description=gettext_lazy("signed in"))
    def signed_in_at(self, row: Any) -> str:
        return pages.moment_html(row.created_at)

    @admin.display(description=gettext_lazy("last seen"))
    def seen_at(self, row: Any) -> str:
        return pages.moment_html(row.past.last_seen_at) if row.past.last_seen_at else "-"

    @admin.display(description=gettext_lazy("ended"))
    def end(self, row: Any) -> str:
        """Show when the session has ended, why, and by whom, on the page of a sign-in."""
        end = pages.end_html(row.past, row.live_url, pages.moment_html)
        return end if row.past.ended_at is None else format_html("{}<br>{}", end, self._how_ended(row))

    @admin.display(description=gettext_lazy("message to the user"))
    def message_read(self, row: Any) -> str:
        return format_html("<bdi>{}</bdi>", row.past.message) if row.past.message else "-"

    @admin.display(description=gettext_lazy("internal note"))
    def note(self, row: Any) -> str:
        return format_html("<bdi>{}</bdi>", row.past.internal_note)

    @admin.display(description=gettext_lazy("blocked"))
    def block(self, row: Any) -> str:
        """Show until when the user is blocked, with the button that lifts it."""
        context = {"block": row.block_of_user.block, "is_apart": True}
        return render_to_string("admin/django_redsess/onlinesession/block.html", context)

    @admin.display(description=gettext_lazy("where from"))
    def sender(self, row: Any) -> str:
        """Show the browser, whether the device was new, and the address as a link to all sign-ins from it."""
        link = ""
        if row.address:
            link = pages.link_html(self._url_of_list({SEARCH_VAR: row.address}), pages.address_html(row.address))
        return format_html("<div>{}</div>", pages.sender_html(row.past, link))

    @admin.display(description=gettext_lazy("without proof"))
    def unproven(self, row: Any) -> str:
        """Show when the session was last used without the proof of its device, by which browser and from where."""
        by = row.past._replace(
            address=row.unproven_address, user_agent=row.unproven_user_agent, is_new_device=None, place=""
        )
        [sender] = with_places([by])
        return format_html("{}<br>{}", pages.moment_html(by.unproven_at), pages.sender_html(sender))

    def add_names(self, request: HttpRequest, rows: Iterable[Any], access: Access | None = None) -> Mapping[str, Any]:
        """
        Return the users of ``rows`` by primary key as text. Set ``users`` and ``past`` on each row.

        ``access`` says who may read internal notes. None stands for the admin of sessions in this site.
        """
        # One query a page. Users whom the administrator may not see have no name.
        rows = list(rows)
        ids = {str(row.user_id) for row in rows} | {row.ended_by for row in rows} - {""}
        users = named_users(request, self.admin_site, ids)
        if access is None:
            access = access_to_sessions(request, self.admin_site)
        past = with_readable_notes(map(past_sign_in, rows), request, self.admin_site, access)
        for row, sign_in in zip(rows, with_places(past), strict=True):
            row.users, row.past = users, sign_in
        return users

    def _find_live(self, request: HttpRequest, rows: Collection[Any]) -> None:
        """Set ``live_url`` on each row: the page of its session, if the session lives and may be seen."""
        urls = live_urls(request, self.admin_site, [row.past for row in rows])
        for row in rows:
            row.live_url = urls.get(name_of_sign_in(row.past), "")

    def _how_ended(self, row: Any) -> SafeString:
        """Say why the session has ended, and by whom, with a link to all sessions that this user has ended."""
        name = format_html("<bdi>{}</bdi>", name_among(row.users, row.ended_by))
        if row.ended_by != str(row.user_id):
            name = pages.link_html(self._url_of_list({filters.ENDED_BY: row.ended_by}), name)
        return pages.how_ended_html(row.past, name)

    def _enders(self, request: HttpRequest, user_ids: Collection[str]) -> SafeString:
        """Return links to the sessions of others that these users have ended."""
        rows = ended_by(self.get_queryset(request), user_ids).order_by() if user_ids else SignIn.objects.none()
        counts = Counter(rows.values_list("ended_by", flat=True)[: COUNTED_MAX + 1])
        text = gettext("Sign-ins that %(name)s ended: %(count)s")
        if counts.total() > COUNTED_MAX:
            text = gettext("Sign-ins that %(name)s ended: at least %(count)s")
        users = named_users(request, self.admin_site, {user_id for user_id, _ in counts.most_common(ENDERS_SHOWN)})
        links = []
        for user_id, count in counts.most_common(ENDERS_SHOWN):
            if user_id in users:
                name = format_html("<bdi>{}</bdi>", name_among(users, user_id))
                shown = pages.fill_html(text, name=name, count=pages.shown_number(count))
                links.append((pages.link_html(self._url_of_list({filters.ENDED_BY: user_id}), shown),))
        return format_html_join(" · ", "{}", links)

    def _blocks(self, request: HttpRequest, user_ids: Collection[str]) -> list[BlockOfUser]:
        """Return the blocks of these users whom the administrator may block, or whose block is shown."""
        access = access_to_sessions(request, self.admin_site)
        if access is None or len(user_ids) > BLOCKS_SHOWN:
            return []
        users, found = blocking.users_with_shown_block(access, set(user_ids)), list[BlockOfUser]()
        for user_id in user_ids:
            if (user := users.get(user_id)) is not None:
                of_user = BlockOfUser(
                    str(user), blocking.shown_block(access, user), blocking.question_url(access, user)
                )
                found += [of_user] if of_user.block or of_user.url else []
        return found

    def _url_of_list(self, query: dict[str, str]) -> str:
        return reverse("admin:redsess_history_signin_changelist", current_app=self.admin_site.name, query=query)

    def _list_context(self, request: HttpRequest, changelist: Any) -> dict[str, Any]:
        count, has_more = changelist.result_count, changelist.paginator.has_more
        title = ngettext("%(count)s sign-in", "%(count)s sign-ins", count)
        if has_more:
            title = gettext("More than %(count)s sign-ins")
        elif not count and (changelist.query or changelist.has_active_filters):
            title = gettext("No matching sign-in")
        dates = next(spec for spec in changelist.filter_specs if isinstance(spec, filters.DatesFilter))
        user_ids, is_last = request.GET.getlist(pages.USER), changelist.page_num >= changelist.paginator.num_pages
        older = {}
        if has_more and is_last and (last := list(changelist.result_list)[-1:]):
            older = {filters.UNTIL: timezone.localdate(last[0].created_at).isoformat()}
        chosen, found_ids = shared_filters.selected_choices(changelist), getattr(request, "redsess_found", user_ids)
        active_on = next(spec for spec in changelist.filter_specs if isinstance(spec, filters.ActiveOnFilter)).day
        others = {filters.WHEN, filters.SINCE, filters.UNTIL, filters.ACTIVE_ON, PAGE_VAR, ERROR_FLAG}
        return {
            "title": title % {"count": pages.shown_number(count)},
            "chosen": chosen,
            **self._end_context(request, changelist),
            "enders": self._enders(request, found_ids),
            "blocks": self._blocks(request, found_ids),
            "shows_blocks": rules().may_see_block(request.user) and access_to_sessions(request, self.admin_site),
            "zone": timezone.get_current_timezone_name(),
            "has_more": has_more,
            "counted_max": COUNTED_MAX,
            "older_query": older and changelist.get_query_string(older, remove=[filters.WHEN, PAGE_VAR]),
            "since": dates.since.isoformat() if dates.since else "",
            "until": dates.until.isoformat() if dates.until else "",
            "active_on": active_on.isoformat() if active_on else "",
            "kept": [(name, value) for name, all_ in request.GET.lists() if name not in others for value in all_],
            "without_search_query": changelist.get_query_string(remove=[SEARCH_VAR]),
            "sessions_url": self._sessions_url(request, user_ids[0]) if len(user_ids) == 1 else "",
        }

    def _sessions_url(self, request: HttpRequest, user_id: str) -> str:
        if access_to_sessions(request, self.admin_site) is None:
            return ""
        return pages.sessions_url("changelist", self.admin_site, query={pages.USER: user_id})

    def _search_help(self, request: HttpRequest) -> str:
        text = gettext("Search by address, network (198.51.100) or user (%(fields)s)")
        return text % {"fields": shared_filters.searched_fields(request, self.admin_site)}

    def _export_batches(self, request: HttpRequest, rows: QuerySet[SignIn]) -> Iterator[list[ExportedRow]]:
        """Read the rows in batches, by keyset: as fast at any depth, and without a query that stays open."""
        batch: list[Any] = list(rows[:READ_AT_ONCE])
        while batch:
            last = batch[-1]
            users = self.add_names(request, batch)
            # The file does not depend on the language.
            with translation.override(None):
                seen = [row for row in batch if self.has_view_permission(request, row)]
                described = fields.describe_sign_ins((row.past for row in seen), users)
            yield [exported_row(each, fields.SIGN_IN) for each in described]
            after = rows.filter(login_ms__lte=last.login_ms).exclude(login_ms=last.login_ms, id__gte=last.pk)
            batch = list(after[:READ_AT_ONCE])


def _list_query(request: HttpRequest) -> str:
    """Return the query string of the list, without the page number and without the page to return to."""
    query = QueryDict(pages.without_return_page(request.GET), mutable=True)
    for name in (PAGE_VAR, ERROR_FLAG):
        query.pop(name, None)
    return query.urlencode()


def _is_narrowed(changelist: ChangeList) -> bool:
    """Tell whether the list has only sign-ins that have not ended, and not all of these. Others are not ended here."""
    is_living = changelist.params.get(filters.STATE) == "living"
    return is_living and bool(changelist.query or len(shared_filters.selected_choices(changelist)) > 1)


def _live_sids(rows: QuerySet[SignIn]) -> list[str]:
    """Return the sids of up to 1 000 sessions of ``rows`` that have not ended, among the first 10 000 rows."""
    # If an end was not recorded, its row is still open. So the server of the sessions is asked.
    open_rows, sids = rows.filter(ended_at__isnull=True).values_list("user_id", "login_ms"), list[str]()
    for start in range(0, COUNTED_MAX, READ_AT_ONCE):
        batch = open_rows[start : start + READ_AT_ONCE]
        found = sids_of_sign_ins([(str(user_id), login_ms) for user_id, login_ms in batch])
        sids += (sid for of_sign_in in found for sid in of_sign_in)
        if len(sids) >= SIDS_MAX or len(found) < READ_AT_ONCE:
            break
    return sids[:SIDS_MAX]


def _from_network(rows: QuerySet[SignIn], network: Network) -> QuerySet[SignIn]:
    found = rows.filter(address_score__range=(network.first, network.last))
    if network.is_exact:
        return found
    # Several IPv6 addresses share a score, so stored addresses are compared one by one.
    near = found.order_by().values_list("address", flat=True).distinct()[:ADDRESSES_MAX]
    return found.filter(address__in=[address for address in near if network_set((network.text,)).has(address)])
