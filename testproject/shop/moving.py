"""``make demo MOVE=db``: the shop's sessions are in the database, and a page moves them, step by step."""

import json
from io import StringIO
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required, permission_required
from django.contrib.sessions.backends.base import SessionBase
from django.core.management import call_command
from django.core.signals import setting_changed
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_http_methods

from django_redsess import online
from django_redsess.contrib.moving import SessionStore


class Step(NamedTuple):
    name: str
    meaning: str
    advice: str = ""
    offers: tuple[str, ...] = ()


STEPS = (
    Step(
        "The release before",
        "Django keeps all sessions in the database. The demo starts after it, with rows as it wrote them.",
    ),
    Step(
        "Step 1: both stores are read",
        "Sessions stay in the database, and new ones begin there. What has moved already is used where it is.",
        "Sign in as a shopper in another browser, and put a kite into the basket. Then go on. A site waits until every "
        "process runs step 1.",
        ("2",),
    ),
    Step(
        "Step 2: sessions move",
        "Each moves at its next request. New ones begin in Redis.",
        "Open a page in the other browser, and see here that its session has moved. Then move the rest, whose owners "
        "are away.",
        ("rest", "1"),
    ),
    Step(
        "All have moved",
        "“manage.py movesessions” has moved the rest. The rows stay in the database, for a way back.",
        "Look at the shop for as long as you like. Then delete the rows. After that, there is no way back.",
        ("finish", "1"),
    ),
    Step(
        "Finished: the rows are deleted",
        "“manage.py movesessions --finish” has deleted them, since the keys in them are valid cookies.",
        "All is done. A site now sets SESSION_ENGINE to “django_redsess.backend”, and removes MOVE_FROM and MOVES.",
    ),
)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
@permission_required("sessions.delete_session", raise_exception=True)
def moving(request: HttpRequest) -> HttpResponse:
    """Show the step that the shop is at, and go to another one that is offered there."""
    rows = _moved("--dry-run")
    at = 1 if not settings.REDSESS["MOVES"] else 2 if rows["done"] else 3 if rows["before"] else 4
    if request.method == "POST":
        if (to := request.POST.get("to", "")) in STEPS[at].offers:
            _, act = ACTIONS[to]
            messages.success(request, act())
        else:
            messages.error(request, "Nothing was done: the shop is at another step by now.")
        return redirect("moving")
    context = {
        "steps": STEPS,
        "at": at,
        "advice": STEPS[at].advice,
        "buttons": [(to, ACTIONS[to][0]) for to in STEPS[at].offers],
        "only_there": rows["done"],
        "moved_rows": rows["before"],
        "here": online.count(guests=True),
        "own_is_here": _is_here(request.session),
    }
    return render(request, "shop/moving.html", context)


def _is_here(session: SessionBase) -> bool:
    return isinstance(session, SessionStore) and session.there is None


def _switch(moves: bool) -> None:
    # A site has it in its settings, and deploys them. This process is the whole site.
    settings.REDSESS["MOVES"] = moves
    setting_changed.send(sender=None, setting="REDSESS", value=settings.REDSESS, enter=True)


def _moved(*options: str) -> dict[str, Any]:
    """Run ``movesessions``, and return what it has counted."""
    printed = StringIO()
    call_command("movesessions", *options, json=True, stdout=printed, stderr=StringIO())
    counted: dict[str, Any] = json.loads(printed.getvalue())
    return counted


def _to_step_1() -> str:
    _switch(False)
    return "Back at step 1. What has moved stays in Redis, and is used there."


def _to_step_2() -> str:
    _switch(True)
    return "Step 2 has begun. Your own session has moved, and you are still signed in."


def _move_the_rest() -> str:
    return f"Moved {_moved()['done']} sessions. Nobody was signed out."


def _finish() -> str:
    return f"Deleted {_moved('--finish')['done']} rows in the database. You are still signed in."


ACTIONS = {
    "1": ("Back to step 1", _to_step_1),
    "2": ("Go to step 2", _to_step_2),
    "rest": ("Move the rest", _move_the_rest),
    "finish": ("Finish: delete the rows", _finish),
}

urlpatterns = [path("moving/", moving, name="moving")]
