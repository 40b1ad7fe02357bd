"""
What is done synchronously and asynchronously, and written once: as a coroutine function, ``async def do(ask, …)``.

``await ask(session, "get", "colour")`` calls ``session.get("colour")``, or awaits ``session.aget("colour")``.
"""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from django.http import HttpResponse
from django.urls import URLPattern, path
from django.views.decorators.csrf import csrf_exempt

Ask = Callable[..., Any]
Steps = Callable[..., Coroutine[Any, Any, Any]]


async def _call(owner: Any, name: str, *args: Any, **named: Any) -> Any:
    found = getattr(owner, name)
    return found(*args, **named) if callable(found) else found


async def _await(owner: Any, name: str, *args: Any, **named: Any) -> Any:
    return await getattr(owner, f"a{name}")(*args, **named)


def run(steps: Steps, *args: Any, **named: Any) -> Any:
    try:
        steps(_call, *args, **named).send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("It awaits more than ask().")


def twins(steps: Steps) -> tuple[Callable[..., Any], Callable[..., Coroutine[Any, Any, Any]]]:
    """Make a function of ``steps``, and an asynchronous one, whose name has an ``a`` before it."""

    @wraps(steps)
    def do(*args: Any, **named: Any) -> Any:
        return run(steps, *args, **named)

    @wraps(steps)
    async def ado(*args: Any, **named: Any) -> Any:
        return await steps(_await, *args, **named)

    ado.__name__ = f"a{steps.__name__}"
    return do, ado


def both(steps: Steps) -> Callable[..., HttpResponse]:
    """Make a view of ``steps``, which :func:`paths` serves in both ways. No other site is kept from it."""
    view, aview = map(csrf_exempt, twins(steps))
    view.steps, view.twin = steps, aview
    return view


def paths(route: str, view: Any, twin: str = "") -> list[URLPattern]:
    """Serve a view at ``route``, and its asynchronous twin at ``async/route``, or at ``twin``."""
    return [path(route, view), path(twin or f"async/{route}", view.twin)]
