"""Signing in as somebody else, with django-hijack as the guide says and by hand: the user stays signed in."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import alogin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import include, path, reverse
from hijack.signals import hijack_started

from django_redsess.accounts import without_limit
from django_redsess.backend import SessionStore
from testproject import urls
from tests.helpers.sign_ins import request_of, sids_of, sign_in
from tests.helpers.site.people import person
from tests.project.docs.pages import DOCS, blocks


@pytest.fixture
def guide(settings: Any) -> Iterator[ModuleType]:
    """The shop with the URLs of the guide."""
    [text] = [block.text for block in blocks(DOCS / "howto/signing-in-as.rst") if block.heading]
    module, receivers = ModuleType("hijacking"), list(hijack_started.receivers)
    exec(text, module.__dict__)
    settings.ROOT_URLCONF = ModuleType("project")
    settings.ROOT_URLCONF.urlpatterns = [path("hijack/", include(module)), *urls.urlpatterns]
    yield module
    hijack_started.receivers = receivers


@pytest.mark.django_db
@pytest.mark.parametrize("policy", ["end_oldest", "refuse"])
def test_a_user_whom_an_administrator_hijacks_stays_signed_in(admin_client, alice, guide, set_limit, policy) -> None:
    set_limit(1, policy)
    browser = Client()
    browser.force_login(alice)
    assert admin_client.post("/hijack/acquire/", {"user_pk": alice.pk}).status_code == 302
    assert int(admin_client.session["_auth_user_id"]) == int(browser.session["_auth_user_id"]) == alice.pk
    [hijacked] = sids_of(str(alice.pk)) - {browser.session.sid}
    assert hijacked == admin_client.session.sid
    assert admin_client.session["hijacked_by"] == "admin"
    assert admin_client.post("/hijack/release/").status_code == 302
    assert sids_of(str(alice.pk)) == {browser.session.sid}
    # The page of the session says who it was.
    admin_client.post("/hijack/acquire/", {"user_pk": alice.pk})
    staff = Client()
    staff.force_login(User.objects.create_superuser("clerk"))
    page = staff.get(reverse("admin:django_redsess_onlinesession_change", args=[admin_client.session.sid]))
    assert "hijacked_by" in page.content.decode()


@pytest.mark.usefixtures("users_in_no_table", "partitions")
def test_a_later_sign_in_counts_the_session_and_ends_both(set_limit) -> None:
    set_limit(1, "end_oldest")
    own = sign_in("7")
    with without_limit():
        other = sign_in("7")
    assert sids_of("7") == {own.sid, other.sid}
    latest = sign_in("7")
    assert sids_of("7") == {latest.sid}


@pytest.mark.usefixtures("users_in_no_table")
def test_an_asynchronous_sign_in_ends_nobody_and_other_tasks_keep_their_limit(set_limit) -> None:
    set_limit(1)

    async def asign_in() -> str | None:
        session = SessionStore()
        await alogin(request_of(session), person("7"))
        await session.asave()
        return session.sid

    async def together() -> tuple[str | None, str | None]:
        within, others_are_in = asyncio.Event(), asyncio.Event()

        async def lifted() -> str | None:
            with without_limit():
                within.set()
                await others_are_in.wait()
                return await asign_in()

        async def limited() -> str | None:
            await within.wait()
            await asign_in()
            sid = await asign_in()
            others_are_in.set()
            return sid

        return await asyncio.gather(lifted(), limited())

    sids = async_to_sync(together)()
    assert sids_of("7") == set(sids)
