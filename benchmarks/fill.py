"""Fill a store with many sessions at once. The result is the same as if the engine had saved each of them."""

from __future__ import annotations

import json
import random
import time
from collections import Counter, defaultdict
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import redis
from tqdm import tqdm

from django_redsess.session import reading
from django_redsess.session.client import Client as Visitor
from django_redsess.session.client import pack_client
from django_redsess.session.record import Record, pack
from django_redsess.transport.keys import Partition, bucket_of_user, keyspace, new_key, sid_of

SESSIONS_AT_ONCE = 500
ITEMS = [f"item-{number:02}" for number in range(100)]
AGE_SECONDS = 14 * 24 * 3600
USER_AGENT = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
)
DATA = {
    "_auth_user_id": "%s",
    "_auth_user_backend": "django.contrib.auth.backends.ModelBackend",
    "_auth_user_hash": "%s",
    "basket": {ITEMS[0]: 1, ITEMS[1]: 2},
}
SESSION = json.dumps(DATA, separators=(",", ":"))

# Adds what has a key of its own for each session or user; ARGV has user id, sid, time and first item of each session.
# What has one key for all sessions is sent by plain commands.
SCRIPT = """
local online_user_of, viewed_by, viewed = KEYS[1], KEYS[2], tonumber(ARGV[1])
for at = 102, #ARGV, 4 do
  local user_id, sid, seen, first = unpack(ARGV, at, at + 3)
  redis.call("ZADD", online_user_of .. user_id, seen, sid)
  local views = {}
  for number = 0, viewed - 1 do
    views[#views + 1] = string.format("%.0f", seen - number)
    views[#views + 1] = ARGV[2 + (first + number) % 100]
  end
  if #views > 0 then redis.call("ZADD", viewed_by .. sid, unpack(views)) end
end
"""

Client = redis.Redis | redis.RedisCluster


class Waiting:
    """Sessions of one partition that are sent together."""

    def __init__(self, viewed: int) -> None:
        self.records: dict[str, bytes] = {}
        self.deadlines: dict[str, int] = {}
        self.seen: dict[str, int] = {}
        self.others: list[str | int] = [viewed, *ITEMS]

    def add(self, sid: str, user_id: str, record: bytes, deadline: int, seen: int, first_item: int) -> None:
        self.records[sid] = record
        self.deadlines[sid], self.seen[sid] = deadline, seen
        self.others += (user_id, sid, seen, first_item)

    def send(self, client: Client, partition: Partition) -> None:
        node = _node_of(client, partition)
        script = node.register_script(SCRIPT)
        with node.pipeline(transaction=False) as together:
            together.hset(partition.login, mapping=self.records)  # type: ignore[arg-type]
            together.zadd(partition.expire, self.deadlines)
            for name in (partition.recent, partition.online_user):
                together.zadd(name, self.seen)
            together.hincrby(partition.totals, "created", len(self.records))
            script([partition.online_user_of(""), partition.viewed_by("")], self.others, client=together)
            together.execute()


def fill(
    client: Client,
    count: int,
    *,
    viewed: int = 5,
    due: bool = False,
    users: int | None = None,
    keys: list[str] | None = None,
) -> None:
    """
    Add ``count`` signed-in sessions to the store of ``client``, ordered by when they were last seen.

    Each has viewed this number of items, at most 100. It expires two weeks after it was last seen, or, if ``due``, at
    that time. The sessions belong in turn to this number of ``users``, with the ids ``"1"``, ``"2"``, …; by default,
    each session has a user of its own. Session keys are added to ``keys``, if that is a list.
    """
    reading.read_time().run()  # Agrees on the number of partitions.
    space, now = keyspace(), int(time.time() * 1000)
    waiting: defaultdict[Partition, Waiting] = defaultdict(lambda: Waiting(viewed))
    # One batch is sent while the next is prepared; more batches would only take memory.
    with ThreadPoolExecutor(1) as sender:
        sending: list[Future[Any]] = [sender.submit(int)]
        for number in tqdm(range(count), unit="session", unit_scale=True, disable=None):
            user_id = str(number % (users or count) + 1)
            home = space.of_user(user_id)
            key = new_key(bucket_of_user(user_id))
            if keys is not None:
                keys.append(key)
            sid = sid_of(key)
            seen = now - count + number
            deadline = seen if due else seen + AGE_SECONDS * 1000
            record = _record(sid, user_id, seen, deadline, number)
            waiting[home].add(sid, user_id, record, deadline, seen, number % len(ITEMS))
            if len(waiting[home].records) == SESSIONS_AT_ONCE:
                sending.pop().result()
                sending.append(sender.submit(waiting.pop(home).send, client, home))
        for partition, left in waiting.items():
            sending.append(sender.submit(left.send, client, partition))
        for each in sending:
            each.result()
    _count_views(client, count, viewed)


def _node_of(client: Client, partition: Partition) -> redis.Redis:
    if isinstance(client, redis.Redis):
        return client
    return client.get_redis_connection(client.get_node_from_key(partition.login))  # type: ignore[no-untyped-call]


def _count_views(client: Client, count: int, viewed: int) -> None:
    # Views are counted in the partition of the item, which may be another than that of the session.
    views = Counter((number + more) % len(ITEMS) for number in range(count) for more in range(viewed))
    for number, times in views.items():
        partition = keyspace().of_item(ITEMS[number])
        client.zincrby(partition.viewed, -times, ITEMS[number])
        client.hincrby(partition.totals, "views", times)


def _record(sid: str, user_id: str, login_ms: int, deadline: int, number: int) -> bytes:
    # 198.18.0.0/15 is reserved for benchmarks.
    client = pack_client(Visitor(f"198.{18 + (number >> 16) % 2}.{(number >> 8) % 256}.{number % 256}", USER_AGENT))
    data = (SESSION % (user_id, random.randbytes(32).hex())).encode()
    return pack(sid, Record(user_id, login_ms, -(-deadline // 1000), AGE_SECONDS, client, data))
