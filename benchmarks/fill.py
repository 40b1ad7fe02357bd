"""Filling a store with sessions by the hundred: what is stored is what the engine stores, only quicker."""

from __future__ import annotations

import secrets
import time
from collections import Counter, defaultdict
from concurrent.futures import Future, ThreadPoolExecutor

import redis
from django.contrib.sessions.serializers import JSONSerializer
from tqdm import tqdm

from django_redsess import store
from django_redsess.keys import Keyspace, Partition, keyspace, sid_of
from django_redsess.record import Client, Record, pack
from django_redsess.scripts import FOLDER

SESSIONS_A_CALL = 500
ITEMS = [f"item-{number:02}" for number in range(100)]
AGE_SECONDS = 14 * 24 * 3600
BACKEND = "django.contrib.auth.backends.ModelBackend"
USER_AGENT = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
)

SCRIPT = """
-- ARGV: date or "", viewed items a session, 100 items, then of each session: sid, record, user id, time, first item.
local policy = policy_from(0, 0, 0)
for at = 103, #ARGV, 5 do
  local sid, record, user_id, seen, first = unpack(ARGV, at, at + 4)
  put_anew(sid, record, user_id, tonumber(seen), ARGV[1], policy)
  redis.call("ZADD", recent, seen, sid)
  redis.call("ZADD", online_seen, seen, sid)
  local views = {}
  for number = 0, ARGV[2] - 1 do
    views[#views + 1] = text(seen - number)
    views[#views + 1] = ARGV[3 + (first + number) % 100]
  end
  if #views > 0 then redis.call("ZADD", viewed_by .. sid, unpack(views)) end
end
"""


def fill(client: redis.Redis, count: int, *, viewed: int = 5, due: bool = False, users: int | None = None) -> None:
    """
    Add ``count`` signed-in sessions to the store behind ``client``, the first the longest unseen.

    Each has ``viewed`` (at most 100) items and lives for two weeks, or is ``due`` already. They belong to as many
    ``users`` in turn, whose ids are ``"1"``, ``"2"``, …; None gives each session a user of its own.
    """
    # Not a file of the package: no site needs it.
    put = client.register_script((FOLDER / "partition.lua").read_text(encoding="utf-8") + SCRIPT)
    space, now = keyspace(), int(time.time() * 1000)
    head: list[str | bytes | int] = [str(now - 1) if due else "", viewed, *ITEMS]
    waiting: defaultdict[Partition, list[str | bytes | int]] = defaultdict(lambda: list(head))

    with ThreadPoolExecutor(max_workers=1) as sender:
        sending: Future[object] | None = None

        def send(partition: Partition) -> None:
            # One call is on its way while the next is made ready, and no more than one.
            nonlocal sending
            if sending:
                sending.result()
            sending = sender.submit(put, store.session_keys(partition), waiting.pop(partition))

        for number in tqdm(range(count), unit="session", unit_scale=True, disable=None):
            user_id = str(number % (users or count) + 1)
            home = space.of_user(user_id)
            sid = _sid_in(space, home)
            record = _record(sid, user_id, number, due)
            waiting[home] += (sid, record, user_id, now - count + number, number % len(ITEMS))
            if len(waiting[home]) == len(head) + SESSIONS_A_CALL * 5:
                send(home)
        for partition in list(waiting):
            send(partition)
        if sending:
            sending.result()

    # Counted where the item belongs, which is not where its viewers are.
    views = Counter((number + more) % len(ITEMS) for number in range(count) for more in range(viewed))
    for number, times in views.items():
        client.zincrby(space.of_item(ITEMS[number]).viewed, -times, ITEMS[number])


def _sid_in(space: Keyspace, home: Partition) -> str:
    while True:
        sid = sid_of(secrets.token_hex(16))
        if space.of_sid(sid) == home:
            return sid


def _record(sid: str, user_id: str, number: int, due: bool) -> bytes:
    data = {
        "_auth_user_id": user_id,
        "_auth_user_backend": BACKEND,
        "_auth_user_hash": secrets.token_hex(32),
        "basket": {ITEMS[number % len(ITEMS)]: 1, ITEMS[(number + 1) % len(ITEMS)]: 2},
    }
    # The range of addresses that is set apart for benchmarks.
    client = Client(f"198.{18 + (number >> 16) % 2}.{(number >> 8) % 256}.{number % 256}", USER_AGENT)
    record = Record(user_id, client, JSONSerializer().dumps(data))
    return pack(sid, record, age_seconds=0 if due else AGE_SECONDS)
