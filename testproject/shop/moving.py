"""``make demo MOVE=db``: the shop's sessions are in the database, and a page moves them, step by step."""

import json
from io import StringIO
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import user_passes_test
from django.contrib.sessions.backends.base import SessionBase
from django.core.management import call_command
from django.core.signals import setting_changed
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_http_methods

from django_redsess import online
from django_redsess.moving import SessionStore

STEPS = {
    "Step 1: both stores are read": "Sessions stay in the database. What has moved already is used where it is.",
    "Step 2: sessions move": "Each moves at its next request. New ones begin in Redis.",
    "All have moved": "movesessions has moved those whose owners are away. The rows stay, for a way back.",
    "The rows are deleted": "movesessions --finish has deleted them: the keys there were valid cookies.",
}


@require_http_methods(["GET", "HEAD", "POST"])
@user_passes_test(lambda user: user.is_staff)
def moving(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        if action := ACTIONS.get(request.POST.get("to", "")):
            messages.success(request, action())
        return redirect("moving")
    moves, rows = settings.REDSESS["MOVES"], _moved("--dry-run")
    at = 0 if not moves else 1 if rows["done"] else 2 if rows["before"] else 3
    context = {
        "steps": [(name, what, number == at) for number, (name, what) in enumerate(STEPS.items())],
        "at": at,
        "only_there": rows["done"],
        "there_too": rows["before"],
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
    return "Back at step 1. What has moved is used where it is now, in Redis."


def _to_step_2() -> str:
    _switch(True)
    return "Step 2 has begun. Your own session has moved with this answer. You are still signed in."


def _move_the_rest() -> str:
    return f"Moved {_moved()['done']} sessions. Nobody was signed out."


def _finish() -> str:
    return f"Deleted {_moved('--finish')['done']} rows of the database."


ACTIONS = {"1": _to_step_1, "2": _to_step_2, "rest": _move_the_rest, "finish": _finish}

urlpatterns = [path("moving/", moving, name="moving")]
