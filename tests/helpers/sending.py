"""Sending as steps do, without what stands in front of that: no question whether the store agrees with the site."""

from __future__ import annotations

from typing import Any

from django_redsess.transport import retries
from django_redsess.transport.connections import pool
from django_redsess.transport.round_trips import adrive, drive


def fetch(*args: Any) -> list[Any]:
    return drive(retries.fetch(pool().of("redsess"), "redsess", *args))


async def afetch(*args: Any) -> list[Any]:
    return await adrive(retries.fetch(pool().of("redsess"), "redsess", *args))
