"""Sending as steps do, without what stands in front of that: no question whether the store agrees with the site."""

from __future__ import annotations

from typing import Any

from django_redsess.transport import retries
from django_redsess.transport.round_trips import adrive, drive


def fetch(*args: Any) -> list[Any]:
    return drive(retries.fetch("redsess", *args))


async def afetch(*args: Any) -> list[Any]:
    return await adrive(retries.fetch("redsess", *args))
