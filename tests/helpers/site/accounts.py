"""Views that change accounts: their own user's, and others'."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib import messages
from django.contrib.auth import HASH_SESSION_KEY, alogout, aupdate_session_auth_hash, logout, update_session_auth_hash
from django.contrib.auth.models import User
from django.contrib.auth.views import PasswordChangeView, PasswordResetConfirmView
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from django_redsess import accounts, online
from tests.helpers.site.meanwhile import meanwhile
from tests.helpers.site.views import who_and_messages

NEW_PASSWORD = "a new password of some length"

# Ways to change the own password that keep the own session, as Django sees it.


def keeps_the_key(request: HttpRequest, user: User) -> None:
    user.save()
    request.session[HASH_SESSION_KEY] = user.get_session_auth_hash()


def cycles_after(request: HttpRequest, user: User) -> None:
    user.save()
    update_session_auth_hash(request, user)


def cycles_before(request: HttpRequest, user: User) -> None:
    update_session_auth_hash(request, user)
    user.save()


def cycles_before_and_after(request: HttpRequest, user: User) -> None:
    request.session.cycle_key()
    user.save()
    update_session_auth_hash(request, user)


def moves_before(request: HttpRequest, user: User) -> None:
    request.session.cycle_key()
    request.session.save()
    user.save()
    update_session_auth_hash(request, user)


def moves_twice(request: HttpRequest, user: User) -> None:
    request.session.cycle_key()
    request.session.save()
    request.session.cycle_key()
    user.save()
    request.session[HASH_SESSION_KEY] = user.get_session_auth_hash()


def moves_after(request: HttpRequest, user: User) -> None:
    user.save()
    update_session_auth_hash(request, user)
    request.session.save()


def cycles_in_the_transaction(request: HttpRequest, user: User) -> None:
    with transaction.atomic():
        user.save()
        update_session_auth_hash(request, user)


def moves_in_the_transaction(request: HttpRequest, user: User) -> None:
    with transaction.atomic():
        user.save()
        update_session_auth_hash(request, user)
        request.session.save()


def cycles_after_the_transaction(request: HttpRequest, user: User) -> None:
    with transaction.atomic():
        user.save()
    update_session_auth_hash(request, user)


def saves_twice(request: HttpRequest, user: User) -> None:
    user.save()
    user.set_password(NEW_PASSWORD + " again")
    user.save()
    update_session_auth_hash(request, user)


WAYS: dict[str, Callable[[HttpRequest, User], None]] = {
    way.__name__: way
    for way in (
        keeps_the_key,
        cycles_after,
        cycles_before,
        cycles_before_and_after,
        moves_before,
        moves_twice,
        moves_after,
        cycles_in_the_transaction,
        moves_in_the_transaction,
        cycles_after_the_transaction,
        saves_twice,
    )
}


def changes_password(request: HttpRequest, way: str) -> HttpResponse:
    user: Any = request.user
    user.set_password(NEW_PASSWORD)
    WAYS[way](request, user)
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


# Closing the own account, and what a view may do after that.


def deactivate(user: Any) -> None:
    user.is_active = False
    user.save()


def delete(user: Any) -> None:
    user.delete()


CLOSINGS: dict[str, Callable[[Any], None]] = {"deactivate": deactivate, "delete": delete}


def does_nothing(request: HttpRequest) -> None:
    """Leave it at that."""


def leaves_a_message(request: HttpRequest) -> None:
    messages.success(request, "Good bye.")


def signs_out(request: HttpRequest) -> None:
    logout(request)


def writes(request: HttpRequest) -> None:
    request.session.get("colour")
    request.session.cycle_key()


AFTERWARDS = {each.__name__: each for each in (does_nothing, leaves_a_message, signs_out, writes)}


def closes_account(request: HttpRequest, closing: str, then: str) -> HttpResponse:
    if "cycle" in request.GET:
        request.session.cycle_key()
    CLOSINGS[closing](request.user)
    AFTERWARDS[then](request)
    return HttpResponse("closed")


async def acloses_account(request: HttpRequest, closing: str, then: str) -> HttpResponse:
    user = await request.auser()
    if closing == "delete":
        await user.adelete()
    else:
        user.is_active = False  # type: ignore[union-attr]
        await user.asave()
    if then == "signs_out":
        await alogout(request)
    else:
        await sync_to_async(AFTERWARDS[then])(request)
    return HttpResponse("closed")


def changes_another(request: HttpRequest, name: str, change: str) -> HttpResponse:
    """Change somebody else's account, without a look at the own session."""
    user = User.objects.get(username=name)
    if change == "password":
        user.set_password(NEW_PASSWORD)
        user.save()
    else:
        CLOSINGS[change](user)
    meanwhile(request)
    return HttpResponse("done")


def reads_and_changes_another(request: HttpRequest, name: str, change: str) -> HttpResponse:
    """Change somebody else's account, and read the own session afterwards."""
    changes_another(request, name, change)
    return who_and_messages(request)


@csrf_exempt
def ends_all_but_this(request: HttpRequest) -> HttpResponse:
    ended = accounts.logout_everywhere(request.user, keep=request.session.sid)  # type: ignore[arg-type, attr-defined]
    return HttpResponse(str(ended))


@csrf_exempt
def ends_another(request: HttpRequest, name: str) -> HttpResponse:
    user = User.objects.get(username=name)
    return HttpResponse(str(accounts.logout_everywhere(user, keep=request.session.sid)))  # type: ignore[attr-defined]


@csrf_exempt
async def ends_everyone_but_this(request: HttpRequest) -> HttpResponse:
    await request.session.aget("colour")
    return HttpResponse(str(await online.aend_all(keep=request.session.sid)))  # type: ignore[attr-defined]


def ends_all(request: HttpRequest) -> HttpResponse:
    return HttpResponse(str(accounts.logout_everywhere(request.user)))  # type: ignore[arg-type]


async def aends_all(request: HttpRequest) -> HttpResponse:
    user: Any = await request.auser()
    return HttpResponse(str(await accounts.alogout_everywhere(user)))


urlpatterns = [
    path("password/<way>/", changes_password),
    path("async/password/", achanges_password),
    path("password-only/", changes_password_only),
    path("close/<closing>/<then>/", closes_account),
    path("async/close/<closing>/<then>/", acloses_account),
    path("another/<name>/<change>/", changes_another),
    path("read-and-another/<name>/<change>/", reads_and_changes_another),
    path("ends-all-but-this/", ends_all_but_this),
    path("ends-another/<name>/", ends_another),
    path("ends-everyone-but-this/", ends_everyone_but_this),
    path("ends-all/", ends_all),
    path("async/ends-all/", aends_all),
    path("password-change/", PasswordChangeView.as_view(success_url="/who/")),
    path("reset/<uidb64>/<token>/", PasswordResetConfirmView.as_view(success_url="/who/")),
    path(
        "reset-and-sign-in/<uidb64>/<token>/",
        PasswordResetConfirmView.as_view(success_url="/who/", post_reset_login=True),
    ),
]
