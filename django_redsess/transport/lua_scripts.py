"""The Lua scripts, read once from ``lua/``.

The first comment of a script declares what it takes. Lua and Python both go by that::

    -- KEYS: samples popularity?
    -- ARGV: sid due:number named:flag kept:list items...
    -- ONCE: item? limit?
    -- needs: clock, remove

``KEYS`` and ``ARGV`` become Lua locals of these names. A ``:number`` may be None (nil). A ``:flag`` is a bool. A
``:list`` has any number of values, or is None (nil). ``...`` stands for all that is left, ``?`` for what may be left
out, with all behind it. ``ONCE`` are arguments for what must not happen twice: they come last, and a repetition leaves
them out. ``needs`` are the shared parts in ``lua/lib/`` whose names a file uses. Their keys come before its own.

A new script is a file, a line below, and a test in ``tests/lua``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from hashlib import sha1
from importlib.resources import files
from itertools import takewhile
from typing import Any, NamedTuple, cast

from django_redsess.transport.keys import Partition

FOLDER = files("django_redsess") / "lua"

Values = tuple[str | bytes | int, ...]


class Declared(NamedTuple):
    """A key or an argument of a script. ``kind`` is the word behind its colon, or ``...``, or ``?``; or ``""``."""

    name: str
    kind: str


class Block:
    """A function of a shared part, or what else stands between two blank lines: its text, and the words in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = set(re.findall(r"\w+", re.sub("--.*", "", text)))
        self.function = "".join(re.findall(r"^local function (\w+)", text, re.MULTILINE)[:1])


class Source:
    """A file of Lua, a script or a shared part: its text, and what the first comment declares."""

    def __init__(self, path: str) -> None:
        text = (FOLDER / f"{path}.lua").read_text(encoding="utf-8")
        self.header = "".join(takewhile(lambda line: line.startswith("--"), text.splitlines(keepends=True)))
        self.body = text[len(self.header) :]
        # Lines within a function are indented.
        self.blocks = [Block(block) for block in re.split(r"\n\n(?=\S)", self.body.strip())]
        self.keys, self.arguments, self.once = (self._names(word) for word in ("KEYS", "ARGV", "ONCE"))
        self.needs = [name.rstrip(",") for name in self._words("needs")]

    def _words(self, label: str) -> list[str]:
        return " ".join(re.findall(rf"^-- {label}: (.+)$", self.header, re.MULTILINE)).split()

    def _names(self, label: str) -> list[Declared]:
        return [Declared(*re.findall(r"(\w+):?(.*)", word)[0]) for word in self._words(label)]


@lru_cache
def shared(name: str) -> Source:
    """Read a shared part."""
    return Source(f"lib/{name}")


CONSTANTS = {
    name: int(value) for name, value in re.findall(r"^local ([A-Z_]+) = (\d+)$", shared("constants").body, re.MULTILINE)
}
"""Numbers that several scripts share, or scripts and Python."""


class Script:
    """
    One script: its text, and the digest by which the server knows it.

    ``repeatable`` says whether a second run, after the reply to the first was lost, changes nothing more. ``task`` is
    what it is a short way to do: in an outage the two are one. ``ends`` says that it may end sessions: then its reply
    is that of ``with_ended`` in ``lib/remove.lua``.

    ``declares_all`` says that it declares all keys that it uses. The other scripts make names of the name for ``""``,
    which is never there. So a cluster that moves their hash slot key by key refuses them before they run. Else they
    might write some keys, and not reach others.

    ``arguments(…)`` and ``once(…)`` take values by the names that the script declares, and return them in its order.
    They raise TypeError where a name is missing or unknown.
    """

    def __init__(self, path: str, *, repeatable: bool = True, task: str = "") -> None:
        source = Source(path)
        parts = parts_of(source)
        declared = [*(key for part in parts for key in shared(part).keys), *source.keys]
        # The first keys are those that a partition names by itself.
        own = takewhile(lambda key: not key.kind and hasattr(Partition, key.name), declared)
        self.path, self.name = path, path.rpartition("/")[2]
        self.task, self.repeatable, self.ends = task or self.name, repeatable, "remove" in parts
        self._own_keys = tuple(key.name for key in own)
        self.declares_all = not {"online_user_of", "viewed_by", "ended_of"}.intersection(self._own_keys)
        self._other_keys = _in_order(f"{self.name}.keys", declared[len(self._own_keys) :])
        self.arguments = _in_order(f"{self.name}.arguments", source.arguments)
        self.once = _in_order(f"{self.name}.once", source.once)
        self.text = _assembled(source, parts, declared)
        self.digest = sha1(self.text.encode(), usedforsecurity=False).hexdigest()

    def keys(self, partition: Partition, **others: str | bytes | Sequence[str]) -> tuple[bytes, ...]:
        """Return the keys in the script's order. ``others`` are those that ``partition`` does not name by itself."""
        named: Sequence[Any] = self._other_keys(**others)
        own = _keys_of(partition, self._own_keys)
        return (*own, *(key.encode() if isinstance(key, str) else key for key in named)) if named else own


@lru_cache(maxsize=4096)
def _keys_of(partition: Partition, names: tuple[str, ...]) -> tuple[bytes, ...]:
    keys = (getattr(partition, name) for name in names)
    # A script appends a user id or a sid to the name for "".
    return tuple((key("") if callable(key) else key).encode() for key in keys)


def _in_order(name: str, declared: Sequence[Declared]) -> Callable[..., Values]:
    """Make a function that takes the values of ``declared`` by name, and returns them in this order."""
    taken = [f"{each.name}=None" if each.kind == "?" else each.name for each in declared]
    made = {"flag": "int({})", "number": '"" if {0} is None else {0}', "list": "*listed({})", "...": "*{}"}
    values = "".join(f"{made.get(each.kind, '{}').format(each.name)}, " for each in declared)
    given = "given" if any(each.kind == "?" for each in declared) else ""
    text = f"lambda {'*, ' if taken else ''}{', '.join(taken)}: {given}(({values}))"
    # As namedtuple makes its methods: what is the same each time costs nothing at a call.
    function: Any = eval(text, {"listed": _listed, "given": _given})  # noqa: S307
    function.__name__ = function.__qualname__ = name
    return cast("Callable[..., Values]", function)


def _listed(values: Sequence[str | bytes | int] | None) -> Values:
    return ("",) if values is None else (len(values), *values)


def _given(values: tuple[Any, ...]) -> Values:
    return values[: values.index(None)] if None in values else values


def parts_of(source: Source) -> list[str]:
    """Name the shared parts that ``source`` needs: each once, and behind those that it needs itself."""
    found: list[str] = []

    def add(names: Iterable[str]) -> None:
        for name in names:
            if name not in found:
                add(shared(name).needs)
                found.append(name)

    if any(each.kind in ("list", "...") for each in source.arguments):
        add(["arguments"])
    add(source.needs)
    return found


def _assembled(source: Source, parts: Sequence[str], keys: Sequence[Declared]) -> str:
    prologue = _prologue(source)
    words = Block(prologue + source.body).words
    kept: list[str] = []
    # What is called stands above: so one look at each function, from the last on, tells whether it is called.
    for block in reversed([block for part in parts for block in shared(part).blocks]):
        if not block.function or block.function in words:
            words |= block.words
            kept.insert(0, f"{block.text}\n\n")
    constants = [f"local {name} = {value}\n" for name, value in CONSTANTS.items() if name in words]
    used = [(key.name, _from_table("KEYS", key, str(place))) for place, key in enumerate(keys, 1) if key.name in words]
    # Arguments come behind the parts, so that no name in a part hides one.
    return "".join((source.header, *constants, _locals(used), *kept, prologue, source.body))


def _prologue(source: Source) -> str:
    lines, chunk, base, place = "", list[tuple[str, str]](), "", 0
    for each in (*source.arguments, *source.once):
        place += 1
        if each.kind == "list":
            # What comes behind it has no fixed place.
            last = f"last_of_{each.name}"
            lines += _locals(chunk) + f"local {each.name}, {last} = list_at({base}{place})\n"
            chunk, base, place = [], f"{last} + ", 0
        else:
            chunk.append((each.name, _from_table("ARGV", each, f"{base}{place}")))
    return lines + _locals(chunk)


def _from_table(table: str, declared: Declared, place: str) -> str:
    """Return the Lua expression of a key or an argument."""
    if declared.kind == "...":
        return f"{{ unpack(KEYS, {place}) }}" if table == "KEYS" else f"arguments_from({place})"
    value = f"{table}[{place}]"
    return {"number": f"tonumber({value})", "flag": f'{value} == "1"'}.get(declared.kind, value)


def _locals(pairs: Sequence[tuple[str, str]]) -> str:
    return f"local {', '.join(name for name, _ in pairs)} = {', '.join(value for _, value in pairs)}\n" if pairs else ""


ADD = Script("session/add", task="create")
CHANGE = Script("session/change", task="save")
CLEAN_ALONG = Script("session/clean_along")
CREATE = Script("session/create")
END = Script("session/end")
END_ABOVE = Script("session/end_above")
PROLONG = Script("session/prolong")
ROTATE = Script("session/rotate")
SAVE = Script("session/save")

COUNT = Script("online/count")
FIND = Script("online/find")
IN_NETWORK = Script("online/in_network")
NEWEST = Script("online/newest")
PAGE = Script("online/page")
READ_RECORDS = Script("online/read_records")
READ_SAMPLES = Script("online/read_samples")
TAKE_SAMPLE = Script("online/take_sample")

COUNT_ITEMS = Script("viewed/count_items")
COUNT_VIEW = Script("viewed/count_view", repeatable=False)
FORGET_ITEMS = Script("viewed/forget_items")
ITEMS_BY_RANK = Script("viewed/items_by_rank")
RECENT_ITEMS = Script("viewed/recent_items")
RECORD_VIEW = Script("viewed/record_view", repeatable=False)
RESET_COUNTS = Script("viewed/reset_counts")
TRIM_ITEMS = Script("viewed/trim_items")
VIEW_COUNTS = Script("viewed/view_counts")

BACKLOG = Script("cleaning/backlog")
CHECK_ENTRIES = Script("cleaning/check_entries")
CHECK_KEYS = Script("cleaning/check_keys")
CHECK_PLACES = Script("cleaning/check_places")
EVICT = Script("cleaning/evict")
EXPIRE = Script("cleaning/expire")
NEXT_DEADLINE = Script("cleaning/next_deadline")
SCAN_KEYS = Script("cleaning/scan_keys")

AGREEMENT = Script("transport/agreement")
PERMISSIONS = Script("transport/permissions")


def every() -> list[Script]:
    """Return all scripts."""
    return [value for value in globals().values() if isinstance(value, Script)]


def commands() -> list[str]:
    """Name the commands that the scripts run, as their texts have them."""
    calls = [call for script in every() for call in re.findall(r"redis\.p?call\(([^,)]+)", script.text)]
    return sorted({name for call in calls for name in re.findall(r'"([A-Z]+)"', call)})
