"""
Blocks: users who may not sign in for a time.

A block is in the user's home partition, and the scripts that create a session or change its user read it. So no session
of a blocked user begins, in whatever way the user signs in. A sign-in also reads it before its view goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from hmac import compare_digest
from typing import Any, Literal, NamedTuple

from django.conf import settings
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext

from django_redsess import observers
from django_redsess.conf import MESSAGE_MAX
from django_redsess.exceptions import SignInRefused
from django_redsess.session.client import is_zone_of_site, zone_of_browser
from django_redsess.session.reading import TIME_MAX
from django_redsess.session.record import SEAL_SIZE, USER_ID_MAX
from django_redsess.signals import request_answered
from django_redsess.transport import packing, scripts
from django_redsess.transport.agreement import derived_key
from django_redsess.transport.connections import server_of
from django_redsess.transport.keys import Partition, keyspace, prefix
from django_redsess.transport.partitions import Scored, ask_each, merged, with_scores
from django_redsess.transport.scripts import Script, Values
from django_redsess.transport.steps import Pipeline, ScriptCall, Steps, T, time_of
from django_redsess.user_messages import STORED_MAX, code_of, contact_text, in_our_language, message_in_words, plain

RestoreResult = Literal["restored", "there", "lifted", "over"]


class Block(NamedTuple):
    """
    A user who may not sign in.

    ``user_id`` is the primary key as text. ``until`` is when the block is over, an aware datetime. ``message`` is what
    the user is told, in the active language, or ``""``. ``message_code`` is its code if it is a ready-made one, and
    ``stored_message`` has both. ``by`` is the primary key, as text, of the user who set the block; ``""`` if not known.
    ``internal_note`` is what that user has written for administrators, or ``""``.
    """

    user_id: str
    until: datetime
    stored_message: str = ""
    by: str = ""
    internal_note: str = ""

    @property
    def message(self) -> str:
        return message_in_words(self.stored_message)

    @property
    def message_code(self) -> str:
        return code_of(self.stored_message)


def set_block(block: Block) -> ScriptCall[bool]:
    """Block a user, or change the block that there is. False if its time is over, by the server's clock."""
    return _setting(scripts.BLOCK, block, bool)


def restore_block(block: Block) -> ScriptCall[RestoreResult]:
    """
    Block a user again whose block was lost, and return ``"restored"``.

    Else nothing is written: the user is blocked (``"there"``), the block was lifted, or it is over.
    """
    script = scripts.RESTORE_BLOCK
    return _setting(script, block, lambda reply: reply.decode(), script.first_attempt_args(first=1))


def _setting(script: Script, block: Block, read: Callable[[Any], T], first_attempt_args: Values = ()) -> ScriptCall[T]:
    partition = keyspace().of_user(block.user_id)
    over_at = _milliseconds(block.until)
    seal = _seals(block.user_id, over_at, block.stored_message, block.by, block.internal_note)[0]
    text = "\n".join((block.stored_message, block.by, seal, *filter(None, [block.internal_note])))
    keys = script.keys(partition, block_of_user=partition.block_of(block.user_id))
    args = script.arguments(user_id=block.user_id, over_at=over_at, text=text)
    return ScriptCall(partition, script, keys, args, read, first_attempt_args=first_attempt_args)


def lift_block(user_id: str) -> ScriptCall[bool]:
    """Lift the block of a user. False if there was none. For a while, it is not restored."""
    partition, script = keyspace().of_user(user_id), scripts.UNBLOCK
    keys = script.keys(partition, block_of_user=partition.block_of(user_id))
    return ScriptCall(
        partition,
        script,
        keys,
        script.arguments(user_id=user_id),
        bool,
        first_attempt_args=script.first_attempt_args(first=1),
    )


def read_block(user_id: str) -> Pipeline[Block | None]:
    """Read the block of a user. None if there is none, or it is over."""
    partition = keyspace().of_user(user_id)
    packed = _block_commands(partition, user_id) + packing.pack_command("TIME")

    def block_in(replies: list[Any]) -> Block | None:
        over_at, text, time = replies
        now = server_of(partition).clock.learn(time)
        return None if over_at is None or float(over_at) <= now else _block_from(user_id, over_at, text)[0]

    return Pipeline(partition, "block", packed, 3, block_in, needed=3)


def refuse_if_blocked(user_id: str) -> Steps[None]:
    """Raise SignInRefused if the user is blocked."""
    block = yield from read_block(user_id)
    if block is not None:
        observers.notify_event("sign_in_refused", reason="block")
        raise blocked_error(block)


def blocked_error(block: Block) -> SignInRefused:
    """Return the error for a sign-in of a blocked user."""
    refused = SignInRefused(_refusal(block, plain))
    refused._in_words = partial(_refusal, block)
    refused.user_id, refused.until = block.user_id, block.until
    refused.message, refused.message_code = block.message, block.message_code
    return refused


def refusal_in_words(error: SignInRefused, isolate: Callable[[str], str]) -> str:
    """Return the text of ``error`` for a page. ``isolate`` is applied to its parts: see ``user_messages``."""
    return isolate(str(error)) if error._in_words is None else error._in_words(isolate)


def _refusal(block: Block, isolate: Callable[[str], str]) -> str:
    """Return what the user is told, in one language. Django has dates in languages in which we have no texts."""
    request = request_answered()
    zone = zone_of_browser(request) if request is not None and is_zone_of_site() else None
    local = timezone.localtime(block.until, zone)
    with in_our_language():
        text = gettext("You can’t sign in until %(time)s.") % {
            "time": f"{date_format(local, 'DATETIME_FORMAT')} {local.tzname()}"
        }
        message = message_in_words(block.stored_message, isolate)
        return " ".join(filter(None, (isolate(text), message, contact_text(isolate))))


def read_blocks(offset: int, limit: int) -> Steps[list[tuple[Block, bool]]]:
    """
    Read blocks of all users, those that are over first: at most ``limit``, after skipping ``offset``.

    Each comes with a bool: True if this site has set it. If not, another program has written it.
    """
    partitions = keyspace().partitions

    def read_parts(numbers: Sequence[int], count: int) -> Steps[list[list[list[Scored]]]]:
        def pack_range(number: int, now: int) -> bytes:
            name = partitions[numbers[number]].blocked
            return packing.pack_command("ZRANGE", name, f"({now}", "+inf", "BYSCORE", "LIMIT", 0, count, "WITHSCORES")

        replies = yield from ask_each("blocks", [partitions[number] for number in numbers], pack_range, 1)
        return [[with_scores(reply)] for [reply] in replies]

    entries = (yield from merged(read_parts, len(partitions), offset + limit))[offset:]
    return (yield from _with_texts([(member.decode(errors="replace"), over_at) for over_at, member in entries]))


def _with_texts(entries: Sequence[tuple[str, float]]) -> Steps[list[tuple[Block, bool]]]:
    homes = dict[Partition, list[str]]()
    for user_id, _ in entries:
        homes.setdefault(keyspace().of_user(user_id), []).append(user_id)
    partitions = list(homes)

    def pack_texts(number: int, _: int) -> bytes:
        home = partitions[number]
        return packing.pack_command("MGET", *(home.block_of(user_id) for user_id in homes[home]))

    replies = (yield from ask_each("blocks", partitions, pack_texts, 1)) if partitions else []
    texts = dict[str, Any]()
    for home, [found] in zip(partitions, replies, strict=True):
        texts.update(zip(homes[home], found, strict=True))
    return [_block_from(user_id, over_at, texts[user_id]) for user_id, over_at in entries]


def _block_commands(partition: Partition, user_id: str) -> bytes:
    over_at = packing.pack_command("ZSCORE", partition.blocked, user_id)
    return over_at + packing.pack_command("GET", partition.block_of(user_id))


def _block_from(user_id: str, over_at: float | bytes, text: bytes | None) -> tuple[Block, bool]:
    # Another program may have stored any text.
    message, by, seal, note, *_ = [*(text or b"").decode(errors="replace").split("\n", 3), "", "", ""]
    at = min(float(over_at), TIME_MAX)
    is_own = any(compare_digest(seal.encode(), each.encode()) for each in _seals(user_id, int(at), message, by, note))
    return Block(user_id, time_of(at), message[:STORED_MAX], by[:USER_ID_MAX], note[:MESSAGE_MAX]), is_own


def _seals(user_id: str, over_at: int, message: str, by: str, internal_note: str) -> list[str]:
    """Return a seal of a block by each key that may have sealed it, the present key first."""
    content = json.dumps([user_id, over_at, message, by, *filter(None, [internal_note])]).encode()
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    sealing = [derived_key(key, b"redsess.block", prefix()) for key in keys]
    return [blake2b(content, digest_size=SEAL_SIZE, key=key).hexdigest() for key in sealing]


def _milliseconds(at: datetime) -> int:
    return int(at.astimezone(UTC).timestamp() * 1000)
