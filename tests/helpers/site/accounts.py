"""Views that change accounts: their own user's, and others'."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from django.contrib import auth, messages
from django.contrib.auth import HASH_SESSION_KEY, aupdate_session_auth_hash, update_session_auth_hash
from django.contrib.auth.models import User
from django.contrib.auth.views import PasswordChangeView, PasswordResetConfirmView
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from django_redsess import accounts, online
from tests.helpers.both import Ask, both, paths, run
from tests.helpers.site.meanwhile import meanwhile
from tests.helpers.site.views import who_and_messages

NEW_PASSWORD = "a new password of some length"

STEPS: dict[str, Callable[[HttpRequest, User], object]] = {
    "save": lambda request, user: user.save(),
    "set again": lambda request, user: user.set_password(NEW_PASSWORD + " again"),
    "keep key": lambda request, user: request.session.update({HASH_SESSION_KEY: user.get_session_auth_hash()}),
    "update": lambda request, user: update_session_auth_hash(request, user),
    "cycle": lambda request, user: request.session.cycle_key(),
    "store": lambda request, user: request.session.save(),
}

WAYS = {
    "keeps_the_key": "save, keep key",
    "cycles_after": "save, update",
    "cycles_before": "update, save",
    "cycles_before_and_after": "cycle, save, update",
    "moves_before": "cycle, store, save, update",
    "moves_twice": "cycle, store, cycle, save, keep key",
    "moves_after": "save, update, store",
    "cycles_in_the_transaction": "[save, update]",
    "moves_in_the_transaction": "[save, update, store]",
    "cycles_after_the_transaction": "[save], update",
    "saves_twice": "save, set again, save, update",
}
"""Ways to change the own password that keep the own session, as Django sees it. What is in brackets is atomic."""


def changes_password(request: HttpRequest, way: str) -> HttpResponse:
    user: Any = request.user
    user.set_password(NEW_PASSWORD)
    atomic = ExitStack()
    for step in WAYS[way].split(", "):
        if step.startswith("["):
            atomic.enter_context(transaction.atomic())
        STEPS[step.strip("[]")](request, user)
        if step.endswith("]"):
            atomic.close()
    meanwhile(request)
    return HttpResponse("done")


async def achanges_password(request: HttpRequest) -> HttpResponse:
    user: Any = await request.auser()
    user.set_password(NEW_PASSWORD)
    await user.asave()
    # Else Django 5.2 reads it from the database, which it may not do here.
    request.user = user
    await aupdate_session_auth_hash(request, user)
    return HttpResponse("done")


def changes_password_only(request: HttpRequest) -> HttpResponse:
    """Change the own password, and leave the session with what no longer fits it."""
    user: Any = request.user
    user.set_password(NEW_PASSWORD)
    user.save()
    request.session["colour"] = "red"
    return HttpResponse("done")


async def change_account(ask: Ask, user: Any, change: str) -> None:
    if change == "delete":
        await ask(user, "delete")
        return
    if change == "deactivate":
        user.is_active = False
    else:
        user.set_password(NEW_PASSWORD)
    await ask(user, "save")


@both
async def closes_account(ask: Ask, request: HttpRequest, closing: str, then: str) -> HttpResponse:
    if "cycle" in request.GET:
        await ask(request.session, "cycle_key")
    await change_account(ask, await ask(request, "user"), closing)
    match then:
        case "leaves_a_message":
            messages.success(request, "Good bye.")
        case "signs_out":
            await ask(auth, "logout", request)
        case "writes":
            await ask(request.session, "get", "colour")
            await ask(request.session, "cycle_key")
    return HttpResponse("closed")


def changes_another(request: HttpRequest, name: str, change: str) -> HttpResponse:
    """Change somebody else's account, without a look at the own session."""
    run(change_account, User.objects.get(username=name), change)
    meanwhile(request)
    return HttpResponse("done")


def reads_and_changes_another(request: HttpRequest, name: str, change: str) -> HttpResponse:
    """Change somebody else's account, and read the own session afterwards."""
    changes_another(request, name, change)
    return who_and_messages(request)


@csrf_exempt
def ends_all_but_this(request: HttpRequest, name: str = "") -> HttpResponse:
    """End all sessions of the own user, or of another, but for the own one."""
    user = User.objects.get(username=name) if name else request.user
    return HttpResponse(str(accounts.logout_everywhere(user, keep=request.session.sid)))


@csrf_exempt
async def ends_everyone_but_this(request: HttpRequest) -> HttpResponse:
    await request.session.aget("colour")
    return HttpResponse(str(await online.aend_all(keep=request.session.sid)))  # type: ignore[attr-defined]


@both
async def ends_all(ask: Ask, request: HttpRequest) -> HttpResponse:
    return HttpResponse(str(await ask(accounts, "logout_everywhere", await ask(request, "user"))))


urlpatterns = [
    path("password/<way>/", changes_password),
    path("async/password/", achanges_password),
    path("password-only/", changes_password_only),
    *paths("close/<closing>/<then>/", closes_account),
    path("another/<name>/<change>/", changes_another),
    path("read-and-another/<name>/<change>/", reads_and_changes_another),
    path("ends-all-but-this/", ends_all_but_this),
    path("ends-another/<name>/", ends_all_but_this),
    path("ends-everyone-but-this/", ends_everyone_but_this),
    *paths("ends-all/", ends_all),
    path("password-change/", PasswordChangeView.as_view(success_url="/who/"), name="password_change"),
    path("reset/<uidb64>/<token>/", PasswordResetConfirmView.as_view(success_url="/who/")),
    path(
        "reset-and-sign-in/<uidb64>/<token>/",
        PasswordResetConfirmView.as_view(success_url="/who/", post_reset_login=True),
    ),
]
