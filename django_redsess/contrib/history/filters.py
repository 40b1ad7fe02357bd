"""The filters of the admin's list of sign-ins. Their choices are fixed: to query for choices would read all rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from typing import Any

from django.apps import apps
from django.contrib.admin import ListFilter, ModelAdmin, SimpleListFilter
from django.contrib.admin.views.main import PAGE_VAR, ChangeList
from django.db.models import Model, Q
from django.http import HttpRequest
from django.utils.dateparse import parse_date
from django.utils.formats import date_format
from django.utils.text import capfirst
from django.utils.translation import gettext, gettext_lazy, pgettext_lazy

from django_redsess import times
from django_redsess.admin import filters
from django_redsess.admin.access import named_users
from django_redsess.admin.users import name_among
from django_redsess.contrib.history.models import REASONS, WHO_ENDED
from django_redsess.contrib.history.stored_sign_ins import ended_by, sign_ins_of_users
from django_redsess.online.browsers import BROWSERS, SYSTEMS
from django_redsess.online.labels import known_server_day

STATE, REASON, WHEN, SINCE, UNTIL, ACTIVE_ON = "state", "reason", "when", "since", "until", "active_on"
WHO, ENDED_BY, DEVICE, UNPROVEN = "who_ended", "ended_by", "is_new_device", "unproven"

UNKNOWN = "unknown"
"""The choice for ends without a recorded reason."""

DAY = timedelta(days=1)


class DatesFilter(ListFilter):
    """Sign-ins of today, of yesterday, of the last 7 days, or of the dates that the form above the list sends."""

    title = pgettext_lazy("filter by", "sign-in")
    parameter_name = WHEN  # django-unfold asks every filter for it.
    texts = {
        "today": gettext_lazy("Signed in today"),
        "yesterday": gettext_lazy("Signed in yesterday"),
        "week": gettext_lazy("Signed in during the last 7 days"),
    }

    def __init__(
        self, request: HttpRequest, params: dict[str, list[str]], model: type[Model], model_admin: ModelAdmin[Any]
    ) -> None:
        super().__init__(request, params, model, model_admin)
        given = {name: params.pop(name, [""])[-1] for name in (WHEN, SINCE, UNTIL)}
        self.when, today = given[WHEN] if given[WHEN] in self.texts else "", known_server_day()
        named = {"today": (today, today), "yesterday": (today - DAY, today - DAY), "week": (today - 6 * DAY, today)}
        self.since, self.until = named.get(self.when) or (parse_day(given[SINCE]), parse_day(given[UNTIL]))
        self.used_parameters |= {name: [value] for name, value in given.items() if value}

    def has_output(self) -> bool:
        return True

    def expected_parameters(self) -> list[str | None]:
        return [WHEN, SINCE, UNTIL]

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        others = [SINCE, UNTIL, PAGE_VAR]
        is_range = not self.when and bool(self.since or self.until)
        query = changelist.get_query_string(remove=[WHEN, *others])
        yield {"selected": not self.when and not is_range, "query_string": query, "display": gettext("All")}
        for value, text in self.texts.items():
            query = changelist.get_query_string({WHEN: value}, remove=others)
            yield {"selected": self.when == value, "query_string": query, "display": text}
        if is_range:
            yield {"selected": True, "query_string": changelist.get_query_string(), "display": self._range_text()}

    def _range_text(self) -> str:
        since, until = (day and date_format(day) for day in (self.since, self.until))
        if since and until:
            return gettext("Signed in from %(since)s to %(until)s") % {"since": since, "until": until}
        if since:
            return gettext("Signed in since %(since)s") % {"since": since}
        return gettext("Signed in until %(until)s") % {"until": until}

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        if self.since:
            queryset = queryset.filter(login_ms__gte=_day_ms(self.since))
        return queryset.filter(login_ms__lt=_day_ms(self.until + DAY)) if self.until else queryset


class ActiveOnFilter(ListFilter):
    """
    Sign-ins that were active on one day: today, yesterday, or the one that the form above the list sends.

    They began by the end of that day, and were last seen on it or later. While a session lives, nobody records when it
    is seen: it counts until today.
    """

    title = pgettext_lazy("filter by", "day of activity")
    parameter_name = ACTIVE_ON
    texts = {"today": gettext_lazy("Active today"), "yesterday": gettext_lazy("Active yesterday")}

    def __init__(
        self, request: HttpRequest, params: dict[str, list[str]], model: type[Model], model_admin: ModelAdmin[Any]
    ) -> None:
        super().__init__(request, params, model, model_admin)
        self.given, self.today = params.pop(ACTIVE_ON, [""])[-1], known_server_day()
        self.day = {"today": self.today, "yesterday": self.today - DAY}.get(self.given) or parse_day(self.given)
        if self.given:
            self.used_parameters[ACTIVE_ON] = [self.given]

    def has_output(self) -> bool:
        return True

    def expected_parameters(self) -> list[str | None]:
        return [ACTIVE_ON]

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        query = changelist.get_query_string(remove=[ACTIVE_ON, PAGE_VAR])
        yield {"selected": not self.day, "query_string": query, "display": gettext("All")}
        for value, text in self.texts.items():
            query = changelist.get_query_string({ACTIVE_ON: value}, remove=[PAGE_VAR])
            yield {"selected": self.given == value, "query_string": query, "display": text}
        if self.day and self.given not in self.texts:
            words = gettext("Active on %(day)s") % {"day": date_format(self.day)}
            yield {"selected": True, "query_string": changelist.get_query_string(), "display": words}

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        if self.day is None:
            return queryset
        if self.day > self.today:
            return queryset.none()
        start = times.to_column(times.midnight(self.day))
        seen = Q(last_seen_at__gte=start) | Q(last_seen_at__isnull=True, ended_at__gte=start)
        return queryset.filter(seen | Q(ended_at__isnull=True), login_ms__lt=_day_ms(self.day + DAY))


def parse_day(text: str) -> date | None:
    try:
        day = parse_date(text)
    except ValueError:
        return None
    # Outside these years, the next day or another time zone may exceed Python's dates.
    return day if day and 1970 <= day.year < 9999 else None


def is_date(text: str) -> bool:
    """Tell whether ``text`` is a date that the filter accepts."""
    return parse_day(text) is not None


def _day_ms(day: date) -> int:
    return int(times.midnight(day).timestamp() * 1000)


class ChoiceFilter(SimpleListFilter):
    """Sign-ins that fit a condition: one of ``table``, which has the text and the condition of each choice."""

    table: Mapping[str, tuple[Any, Q]]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [(value, text) for value, (text, _) in self.table.items()]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        _, condition = self.table.get(self.value() or "", ("", Q()))
        return queryset.filter(condition)


class StateFilter(ChoiceFilter):
    title = pgettext_lazy("filter by", "state")
    parameter_name = STATE
    table = {
        "living": (gettext_lazy("Still signed in"), Q(ended_at__isnull=True)),
        "ended": (pgettext_lazy("sessions", "Ended"), Q(ended_at__isnull=False)),
    }


class ReasonFilter(ChoiceFilter):
    title = pgettext_lazy("filter by", "how it ended")
    parameter_name = REASON
    table = {
        **{str(reason): (capfirst(text), Q(reason=reason)) for reason, text in REASONS.items()},
        UNKNOWN: (gettext_lazy("Not recorded"), Q(reason="", ended_at__isnull=False)),
    }


class WhoEndedFilter(ChoiceFilter):
    title = pgettext_lazy("filter by", "who ended it")
    parameter_name = WHO
    table = {who: (capfirst(text), Q(who_ended=who)) for who, text in WHO_ENDED.items()}


class SignInBrowserFilter(ChoiceFilter):
    title = pgettext_lazy("filter by", "browser")
    parameter_name = filters.BROWSER
    # ``client`` may have a system, too: see ``browser_and_system``.
    table = {
        name: (name, Q(client__in=[name, *(f"{name} on {system}" for system in (*SYSTEMS, "ChromeOS"))]))
        for name in BROWSERS
    }


class SignInSystemFilter(ChoiceFilter):
    title = pgettext_lazy("filter by", "operating system")
    parameter_name = filters.SYSTEM
    table = {name: (name, Q(client__in=[name, *(f"{browser} on {name}" for browser in BROWSERS)])) for name in SYSTEMS}


class DeviceFilter(ChoiceFilter):
    title = pgettext_lazy("filter by", "device")
    parameter_name = DEVICE
    table = {"true": (gettext_lazy("New devices only"), Q(is_new_device=True))}


class UnprovenFilter(ChoiceFilter):
    """Sign-ins whose session was used without the proof of its device. Shown where sessions are bound to devices."""

    title = pgettext_lazy("filter by", "proof of the device")
    parameter_name = UNPROVEN
    table = {"true": (gettext_lazy("Used without proof only"), Q(unproven_at__isnull=False))}

    def has_output(self) -> bool:
        return bool(self.value()) or apps.is_installed("django_redsess.contrib.device_bound")


class EndedByFilter(ListFilter):
    """Sessions of others that one user has ended. Only links set it."""

    title = pgettext_lazy("filter by", "the person who ended it")
    parameter_name = ENDED_BY

    def __init__(
        self, request: HttpRequest, params: dict[str, list[str]], model: type[Model], model_admin: ModelAdmin[Any]
    ) -> None:
        super().__init__(request, params, model, model_admin)
        self.by = params.pop(ENDED_BY, [""])[-1]
        if self.by:
            self.used_parameters[ENDED_BY] = [self.by]
            self.name = name_among(named_users(request, model_admin.admin_site, {self.by}), self.by)

    def has_output(self) -> bool:
        return bool(self.by)

    def expected_parameters(self) -> list[str | None]:
        return [ENDED_BY]

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        query = changelist.get_query_string(remove=[ENDED_BY, PAGE_VAR])
        yield {"selected": False, "query_string": query, "display": gettext("All")}
        text = gettext("Ended by %(name)s") % {"name": self.name}
        yield {"selected": True, "query_string": changelist.get_query_string(), "display": text}

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return ended_by(queryset, [self.by]) if self.by else queryset


class SignInUserFilter(filters.UserFilter):
    """Sign-ins of some users. Only links set it."""

    def users_to_name(self, changelist: ChangeList) -> dict[str, Any]:
        listed = {str(row.user_id) for row in changelist.result_list} & set(self.shown_ids)
        return self.named | named_users(self.request, self.site, listed - self.named.keys())

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return sign_ins_of_users(queryset, self.user_ids) if self.user_ids else queryset
