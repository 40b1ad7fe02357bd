"""What an administrator reads after sessions were ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.formats import number_format
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import Truncator
from django.utils.translation import gettext, ngettext

from django_redsess import online
from django_redsess.admin.deactivating import AllEnded
from django_redsess.admin.end_form import EndForm, Progress, signed_progress
from django_redsess.admin.end_rules import EndRulesMixin, own_sid_of
from django_redsess.admin.links import query_of
from django_redsess.admin.returning import return_page_of
from django_redsess.models import OnlineSession
from django_redsess.online import presentation
from django_redsess.online.ending import too_few
from django_redsess.online.queries import SessionFilter
from django_redsess.querysets.sessions import users_by_id
from django_redsess.session import notice
from django_redsess.signals import EndedSession

NAMES_MAX = 3
"""A message names so many users."""

NAME_MAX = 100
"""A longer name is cut after so many characters."""


class EndAnswersMixin(EndRulesMixin):
    """The part of ``OnlineSessionAdmin`` that says what has ended, and leads back."""

    end_template = "admin/django_redsess/onlinesession/end_confirmation.html"

    def _back(self, request: HttpRequest) -> HttpResponse:
        return HttpResponseRedirect(return_page_of(request).url(self.admin_site))

    def _question(self, request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
        page = return_page_of(request)
        context = {"return_parameters": page.parameters, "back": page.url(self.admin_site), **context}
        return self.page(request, self.end_template, context.pop("title", gettext("End sessions")), context)

    def _answer(
        self, request: HttpRequest, text: SafeString, replicas: int | None, again: dict[str, Any]
    ) -> HttpResponse:
        """Say what has ended, in ``text``. If too few replicas have confirmed it, show a form that looks ``again``."""
        if not text:
            return self._back(request)
        text = format_html("{} {}", text, presentation.confirmed(replicas)) if replicas is not None else text
        if not too_few(replicas):
            messages.success(request, text)
        elif own_sid_of(request) is None:  # Signed out.
            messages.warning(request, text)
        else:
            form = EndForm(initial={**again, "again": True, "own": False, "deactivate": ""})
            return self._question(request, {"unconfirmed": text, "number": 1, "continues": True, "form": form})
        return self._back(request)

    def _answer_deactivation(self, request: HttpRequest, user: Any, result: AllEnded, message: str) -> HttpResponse:
        """Say that the account of ``user`` was deactivated, and how many sessions have ended."""
        name, query = _name_html(str(user)), query_of([online.user_id_of(user)])
        again: dict[str, Any] = {"query": query, "message": message}
        if result.is_outage:
            text = filled(
                gettext(
                    "The account of %(user)s was deactivated: nobody can sign in with it. But its sessions could not "
                    "be ended, because the server of the sessions does not answer. Look again in a while."
                ),
                user=name,
            )
            # Without a time, this form asks the question again.
            context = {"unconfirmed": text, "number": 1, "continues": True, "form": EndForm(initial=again)}
            return self._question(request, context)
        messages.success(request, filled(gettext("The account of %(user)s was deactivated."), user=name))
        if too_few(result.confirmed_by):
            _, latest = online.census(SessionFilter((online.user_id_of(user),)))
            progress = Progress(len(result.ended), len(result.ended))
            again |= {"latest": latest, "progress": signed_progress(request, query, latest, progress)}
        return self._answer(request, ended_text(result.ended), result.confirmed_by, again)

    def _report_gone(self, request: HttpRequest, count: int) -> None:
        if count > 0:
            text = ngettext(
                "%(count)s session was not ended: it was over already.",
                "%(count)s sessions were not ended: they were over already.",
                count,
            )
            messages.warning(request, text % {"count": number_format(count, force_grouping=True)})

    def _report_protected(self, request: HttpRequest, count: int) -> None:
        if not count:
            return
        if self._has_custom_rule:
            text = ngettext(
                "%(count)s session was not ended: you may not end it.",
                "%(count)s sessions were not ended: you may not end them.",
                count,
            )
        else:
            text = ngettext(
                "%(count)s session was not ended: it is a superuser's, and only superusers can end it.",
                "%(count)s sessions were not ended: they are superusers', and only superusers can end them.",
                count,
            )
        messages.warning(request, text % {"count": number_format(count, force_grouping=True)})


def count_text(count: int) -> SafeString:
    """Say how many sessions have ended; nothing for none."""
    if not count:
        return SafeString()
    text = ngettext("%(count)s session was ended.", "%(count)s sessions were ended.", count)
    return filled(text, count=number_format(count, force_grouping=True))


def ended_text(ended: Sequence[EndedSession], rows: Mapping[str, OnlineSession] | None = None) -> SafeString:
    """
    Say how many sessions have ended, and whose they were, as HTML.

    Names are as the list shows them. ``rows`` are the sessions by sid: if one has ended, it says of which browser.
    """
    if len(ended) == 1 and (row := (rows or {}).get(ended[0].sid)) is not None:
        client = ", ".join(filter(None, (presentation.browser_name(row.user_agent), row.address)))
        if client and row.user_id:
            text = gettext("The session of %(user)s was ended: %(client)s.")
            return filled(text, user=_name_html(str(row)), client=_name_html(client))
        if client:
            return filled(gettext("The session of a guest was ended: %(client)s."), client=_name_html(client))
    user_ids = list(dict.fromkeys(session.user_id for session in ended if session.user_id))
    if not user_ids:
        return count_text(len(ended))
    names, shown = names_of(*user_ids[:NAMES_MAX]), number_format(len(ended), force_grouping=True)
    if len(user_ids) == 1 and all(session.user_id for session in ended):
        text = ngettext(
            "%(count)s session of %(user)s was ended.", "%(count)s sessions of %(user)s were ended.", len(ended)
        )
        return filled(text, count=shown, user=names)
    more = len(user_ids) - NAMES_MAX
    if more > 0:
        text = ngettext("Users: %(users)s and %(count)s more.", "Users: %(users)s and %(count)s more.", more)
        users = filled(text, users=names, count=number_format(more, force_grouping=True))
    else:
        users = filled(gettext("Users: %(users)s."), users=names)
    return format_html("{} {}", count_text(len(ended)), users)


def filled(text: str, **values: str) -> SafeString:
    """Return the translated ``text`` as HTML, with its placeholders filled."""
    escaped = {name: conditional_escape(value) for name, value in values.items()}
    return mark_safe(conditional_escape(text) % escaped)  # noqa: S308  # all parts are escaped


def names_of(*user_ids: str) -> SafeString:
    """Return the names of these users as the list shows them, as HTML."""
    users, names = users_by_id(set(user_ids)), []
    for user_id in user_ids:
        row = OnlineSession(user_id=user_id)
        row.user = users.get(user_id)
        names.append((_name_html(str(row)),))
    return format_html_join(", ", "{}", names)


def _name_html(name: str) -> SafeString:
    # <bdi> keeps a name that is written from right to left from reordering the text beside it.
    return format_html("<bdi>{}</bdi>", Truncator(notice.clean(name)).chars(NAME_MAX))
