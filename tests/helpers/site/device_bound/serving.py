"""
The process: ``python -m tests.helpers.site.device_bound.serving SOCKET CERTIFICATE FOLDER``.

Serves https on the listening socket with this descriptor, so that a second process can take over from the first. Below
``/below/``, the site is served once more under this SCRIPT_NAME. ``FOLDER`` is how a test and the process talk:

``requests``          one line of JSON for each request, before its answer leaves
``hold-challenges``   while it exists, no challenge for a refresh leaves; then ``holds`` tells that one was asked for
``fail-refreshes``    while it exists, each refresh is answered 503
``ahead``             by how many seconds the store's clock is ahead of the real one
"""

import asyncio
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import django
import uvicorn
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.asgi import get_asgi_application

from django_redsess.session import operations
from django_redsess.transport import scripts
from django_redsess.transport.pools import Clock

BELOW = "/below"


def watched(application: Any, folder: Path) -> Any:
    """Write down each request, and do what the test's files tell."""
    log = (folder / "requests").open("a", buffering=1)

    async def watch(scope: Any, receive: Any, send: Any) -> None:
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        refreshes = "sec-secure-session-id" in headers
        shown: dict[str, Any] = {
            "host": headers["host"].partition(":")[0],
            "path": scope["path"],
            "method": scope.get("method", "socket"),
            "cookies": sorted(each.partition("=")[0] for each in headers.get("cookie", "").split("; ")),
            "jws": "secure-session-response" in headers,
            "skipped": headers.get("secure-session-skipped", ""),
            "status": 0,
        }

        async def answer(message: Any) -> None:
            if message["type"] in ("http.response.start", "websocket.accept", "websocket.http.response.start"):
                shown["status"] = message.get("status", 101)
                if refreshes and shown["status"] == 403:
                    (folder / "holds").touch()
                    while (folder / "hold-challenges").exists():
                        await asyncio.sleep(0.01)
                # Before the browser can show the answer.
                log.write(json.dumps(shown) + "\n")
            await send(message)

        ahead = folder / "ahead"
        move_clocks(int(ahead.read_text()) * 1000 if ahead.exists() else 0)
        if scope["path"].startswith(f"{BELOW}/"):
            scope = {**scope, "root_path": BELOW}
        if refreshes and (folder / "fail-refreshes").exists():
            await answer({"type": "http.response.start", "status": 503, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await application(scope, receive, answer)

    return watch


def move_clocks(milliseconds: int) -> None:
    if milliseconds != Clock.moved_ms:
        Clock.moved_ms = milliseconds
        scripts.move_clock(milliseconds)
        # The templates contain the digest of a script.
        operations.save_templates.cache_clear()


def make_application() -> Any:
    http = ASGIStaticFilesHandler(get_asgi_application())
    # Consumers import models: after Django is ready.
    from channels.auth import AuthMiddleware
    from channels.generic.websocket import AsyncJsonWebsocketConsumer
    from channels.routing import ProtocolTypeRouter, URLRouter
    from channels.security.websocket import AllowedHostsOriginValidator
    from channels.sessions import CookieMiddleware, SessionMiddleware
    from django.urls import path

    from django_redsess.contrib.device_bound.sockets import SessionProofMiddleware
    from django_redsess.contrib.sockets.consumers import SessionConsumerMixin

    class Greeting(SessionConsumerMixin, AsyncJsonWebsocketConsumer):
        async def connect(self) -> None:
            await self.accept()
            await self.send_json({"user": str(self.scope["user"])})

    sockets = URLRouter([path("greeting/", Greeting.as_asgi())])
    stack = CookieMiddleware(SessionMiddleware(SessionProofMiddleware(AuthMiddleware(sockets))))
    return ProtocolTypeRouter({"http": http, "websocket": AllowedHostsOriginValidator(stack)})


def fill() -> None:
    from django.contrib.auth.models import User

    from testproject.people import PASSWORD
    from testproject.shop.catalogue import load_catalogue

    if not User.objects.exists():
        load_catalogue()
        User.objects.create_superuser("admin", password="admin")
        for name in ("alice", "bob", "carol"):
            User.objects.create_user(name, password=PASSWORD)


def main(descriptor: int, certificate: Path, folder: Path) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.helpers.site.settings.device_bound")
    django.setup()
    fill()
    config = uvicorn.Config(
        watched(make_application(), folder),
        lifespan="off",
        log_level="warning",
        ssl_certfile=certificate,
        # A browser may keep idle connections, and TLS waits for it to close them.
        timeout_graceful_shutdown=5,
    )
    listening = socket.socket(fileno=descriptor)
    (folder / "served").touch()
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
