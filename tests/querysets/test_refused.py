"""What a QuerySet of sessions or of items can not do: it says so, and asks neither a table nor the server."""

import asyncio
import inspect
from typing import Any

import pytest
from django.db import NotSupportedError
from django.db.models import F, Q, QuerySet

from django_redsess.models import OnlineSession, PopularItem

pytestmark = pytest.mark.unit

SESSIONS, ITEMS = OnlineSession.online, PopularItem.viewed

SAYS = {SESSIONS: "Online sessions", ITEMS: "Most viewed items"}

# What the admin uses, what comes for nothing, and the async variants.
BOTH_DO = {
    *("all", "none", "filter", "order_by", "count", "exists", "get", "first", "iterator", "counting_once"),
    *("contains", "in_bulk", "using", "as_manager", "fetch_mode"),
}
WORK = {
    SESSIONS: {
        *BOTH_DO,
        *("reverse", "last", "of_users", "with_guests", "only_guests", "active", "marked_for"),
        *(
            "of_network",
            "of_browser",
            "of_system",
            "device_bound",
            "looked_through",
            "rows_of",
            "rows_after",
            "in_pages",
        ),
        "resolve_expression",
    },
    ITEMS: {*BOTH_DO, "of_entries", "resolving"},
}

REFUSED = [
    (manager, name)
    for manager, work in WORK.items()
    for name in dir(type(manager.all()))
    if not name.startswith(("_", "a")) or name in {"aggregate", "alias", "annotate"}
    if name not in work and inspect.isfunction(getattr(type(manager.all()), name))
]


@pytest.mark.parametrize(
    ("manager", "ask"),
    [
        (SESSIONS, lambda rows: rows.filter(address="192.0.2.1")),
        (SESSIONS, lambda rows: rows.filter(sid__startswith="a")),
        (SESSIONS, lambda rows: rows.filter(Q(sid="a") | Q(sid="b"))),
        (SESSIONS, lambda rows: rows.filter(Q(sid="a") ^ Q(sid="b"))),
        (SESSIONS, lambda rows: rows.filter(~Q(sid="a"))),
        (SESSIONS, lambda rows: rows.filter(Q(user_id="1") & ~Q(sid="a"))),
        (SESSIONS, lambda rows: rows.filter(F("sid"))),
        (SESSIONS, lambda rows: rows.order_by("address")),
        (SESSIONS, lambda rows: rows.order_by(F("created_at").desc())),
        (ITEMS, lambda rows: rows.filter(views=1)),
        (ITEMS, lambda rows: rows.filter(item__contains="a")),
        (ITEMS, lambda rows: rows.filter(~Q(item="a"))),
        (ITEMS, lambda rows: rows.order_by("views")),
        (ITEMS, lambda rows: rows | rows),
    ],
)
def test_what_is_not_possible_says_so(manager: Any, ask: Any) -> None:
    with pytest.raises(NotSupportedError, match=SAYS[manager]):
        ask(manager.all())


def arguments_for(name: str) -> list[str]:
    """Make up arguments for what a method must have."""
    parameters = list(inspect.signature(getattr(QuerySet, name)).parameters.values())[1:]
    return ["sid" for each in parameters if each.default is each.empty and each.kind == each.POSITIONAL_OR_KEYWORD]


@pytest.mark.parametrize(("manager", "name"), REFUSED)
def test_every_other_method_is_refused(manager: Any, name: str) -> None:
    with pytest.raises(NotSupportedError, match="reverse" if (manager, name) == (ITEMS, "last") else name):
        getattr(manager.all(), name)(*arguments_for(name))


@pytest.mark.parametrize("name", ["aaggregate", "acreate", "adelete", "aearliest", "aupdate", "abulk_create"])
def test_async_variants_are_refused_as_well(name: str) -> None:
    with pytest.raises(NotSupportedError, match="Online sessions"):
        asyncio.run(getattr(SESSIONS.all(), name)(*arguments_for(name)))
