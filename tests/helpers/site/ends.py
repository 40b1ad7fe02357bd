"""Views that end sessions on their way."""

import asyncio
from collections.abc import Iterator

from django.contrib.auth import SESSION_KEY
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path

from django_redsess import online
from django_redsess.backend import SessionStore
from tests.helpers.both import Ask, both, paths


@both
async def create_three(ask: Ask, request: HttpRequest) -> HttpResponse:
    for _ in range(3):
        session = SessionStore()
        session[SESSION_KEY] = "7"
        await ask(session, "create")
    return HttpResponse("created")


def create_and_stream(request: HttpRequest) -> StreamingHttpResponse:
    create_three(request)
    return StreamingHttpResponse(iter([b"begun, ", b"and done"]))


async def async_create_and_stream(request: HttpRequest) -> StreamingHttpResponse:
    await create_three.twin(request)

    async def parts():
        yield b"begun, "
        yield b"and done"

    return StreamingHttpResponse(parts())


def end_and_fail(request: HttpRequest, sid: str) -> HttpResponse:
    online.end(sid)
    raise RuntimeError("the view fails")


def end_and_lose(request: HttpRequest, sid: str) -> HttpResponse:
    """End a session, and lose the own one to somebody else before it is saved."""
    online.end(sid)
    request.session["colour"] = "red"
    SessionStore().delete(request.session.session_key)
    return HttpResponse("never seen")


def end_in_the_stream(request: HttpRequest, sid: str) -> StreamingHttpResponse:
    def parts() -> Iterator[bytes]:
        yield b"begun, "
        online.end(sid)
        yield b"and done"

    return StreamingHttpResponse(parts())


# What the next two views end, the tasks that they leave behind, and what those wait for.
KEY: list[str] = []
TASKS: list[asyncio.Task[None]] = []
GO_ON: list[asyncio.Event] = []


async def leave_a_task(request: HttpRequest) -> HttpResponse:
    async def later() -> None:
        await GO_ON[0].wait()
        await SessionStore().adelete(KEY[0])

    TASKS.append(asyncio.create_task(later()))
    return HttpResponse("left")


async def end_and_wait(request: HttpRequest) -> HttpResponse:
    await SessionStore().adelete(KEY[0])
    await asyncio.sleep(10)
    return HttpResponse("never seen")


urlpatterns = [
    path("task/", leave_a_task),
    path("wait/", end_and_wait),
    *paths("create/", create_three),
    path("stream/", create_and_stream),
    path("async/stream/", async_create_and_stream),
    path("fail/<sid>/", end_and_fail),
    path("lose/<sid>/", end_and_lose),
    path("end-in-the-stream/<sid>/", end_in_the_stream),
]
