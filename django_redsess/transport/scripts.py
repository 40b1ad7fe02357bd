"""The Lua scripts, read once from ``lua/``.

A file begins with blocks that all scripts share, with blank lines between them. Then come its scripts. A script begins
with a line that names it, and goes on to the next such line::

    --- name: What it does.
    -- KEYS: partition popularity?
    -- ARGV: sid due:number named:flag kept:list items...
    -- ONCE: item? limit?
    -- Reply: 1.
    return 1

``KEYS`` and ``ARGV`` become Lua locals of these names. A ``:number`` may be None (nil). A ``:flag`` is a bool. A
``:list`` has any number of values, or is None (nil). ``...`` takes all the other values. An argument with ``?`` may be
left out, with all arguments behind it. ``ONCE`` are arguments for effects that must not happen twice: they come last,
and a repetition leaves them out. ``partition`` stands for :data:`PARTITION`.

A script gets the blocks that define a name which the script uses, or which such a block uses.
A block uses only blocks above it, in its own file or in an earlier one of :data:`FILES`.

A new script is a place in a file, a line below, and a test in ``tests/lua``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from hashlib import sha1
from importlib.resources import files
from itertools import takewhile
from operator import itemgetter
from typing import Any

from django_redsess.transport.keys import Partition

FOLDER = files("django_redsess") / "lua"

FILES = (
    *(
        "common",
        "user_limit",
        "blocks",
        "eviction",
        "session",
        "moving",
        "growing",
        "online",
        "viewed",
        "cleaning",
        "tries",
    ),
    "locking",
    "agreement",
    "acl",
)
"""The files, in the order in which their blocks stand in a script."""

PARTITION = "login expire recent guests online_user online_user_of viewed_by ended_of wake totals blocked"
"""The keys that most scripts declare. ``lua/common.lua`` says why."""

Values = tuple[str | bytes | int, ...]

Declared = list[tuple[str, str]]
"""Keys or arguments of a script: names and kinds. A kind is the word behind the colon, ``...``, ``?`` or ``""``."""


class LuaBlock:
    """Some lines of Lua, the words in them, and the names that they define for the lines below."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = set(re.findall(r"\w+", re.sub("--.*", "", text)))
        defined = " ".join(re.findall(r"(?m)^local (?:function )?([\w, ]+)", text))
        self.names = set(defined.replace(",", " ").split())


SHARED = list[LuaBlock]()
TEXTS = dict[str, str]()
for _file in FILES:
    _shared, *_scripts = re.split(r"(?m)^--- (?=\w+: )", (FOLDER / f"{_file}.lua").read_text(encoding="utf-8"))
    # Lines within a function are indented.
    SHARED += map(LuaBlock, re.split(r"\n\n(?=\S)", _shared.strip()))
    TEXTS |= {text.partition(":")[0]: f"-- {text.strip()}\n" for text in _scripts}


def declares(text: str, label: str) -> Declared:
    """Return what a script declares by ``KEYS``, ``ARGV`` or ``ONCE``."""
    words = " ".join(re.findall(rf"(?m)^-- {label}: (.+)$", text))
    return re.findall(r"(\w+):?(\S*)", re.sub(r"\bpartition\b", PARTITION, words))


def linked(text: str, shared: Sequence[LuaBlock]) -> str:
    """Return a script as the server gets it: below the blocks of ``shared`` that it uses."""
    header = "".join(takewhile(lambda line: line.startswith("--"), text.splitlines(keepends=True)))
    body = LuaBlock(text[len(header) :])
    # Arguments come behind the blocks, so that no name in a block hides one.
    script = LuaBlock(_locals("ARGV", declares(text, "ARGV") + declares(text, "ONCE"), body.words) + body.text)
    words, kept = script.words, ""
    # A block uses only blocks above it. So one look at each, from the last on, tells whether it is used.
    for block in reversed(shared):
        if block.names & words:
            words, kept = words | block.words, f"{block.text}\n\n{kept}"
    return header + _locals("KEYS", declares(text, "KEYS"), words) + kept + script.text


def _locals(table: str, declared: Declared, used: set[str]) -> str:
    """Return the Lua that makes locals of the keys or arguments whose names are ``used``."""
    lines, base, position = "", "", 0
    rest = "{{ unpack(KEYS, {}) }}" if table == "KEYS" else "arguments_from({})"
    forms = {"...": rest, "number": "tonumber(ARGV[{}])", "flag": 'ARGV[{}] == "1"'}
    for name, kind in declared:
        position += 1
        if kind == "list":
            lines += f"local {name}, last_of_{name} = list_at({base}{position})\n"
            # The arguments behind a list have no fixed place.
            base, position = f"last_of_{name} + ", 0
        elif name in used:
            lines += f"local {name} = {forms.get(kind, table + '[{}]').format(f'{base}{position}')}\n"
    return lines


CONSTANTS = {
    name: int(value) for each in SHARED for name, value in re.findall(r"(?m)^local ([A-Z_]+) = (\d+)$", each.text)
}
"""Numbers that several scripts share, or scripts and Python."""


class Script:
    """
    One script: its text, and the digest by which the server knows it.

    ``repeatable`` says whether a second run changes nothing more, after the reply to the first was lost. ``task`` names
    the general script to which this one is a short way: in an outage they count as one. ``ends`` says that the script
    may end sessions: then its reply is that of ``with_ended`` in ``lua/common.lua``.

    ``declares_all`` says that the script declares all keys that it uses. The other scripts append to a declared name,
    that for ``""``, which no key has. So a cluster that moves their hash slot key by key refuses them before they run.
    Otherwise they might write some keys, and not reach others.

    ``arguments(…)`` and ``first_attempt_args(…)`` take values by the names that the script declares, and return them in
    its order. They raise TypeError where a name is missing or unknown.
    """

    def __init__(self, name: str, *, repeatable: bool = True, task: str = "") -> None:
        text = TEXTS[name]
        keys = declares(text, "KEYS")
        # The first keys are those that a partition names by itself.
        own = takewhile(lambda key: not key[1] and hasattr(Partition, key[0]), keys)
        self.name, self.task, self.repeatable = name, task or name, repeatable
        self._own_keys = tuple(name for name, _ in own)
        self.declares_all = not {"online_user_of", "viewed_by", "ended_of"}.intersection(self._own_keys)
        self._other_keys = _in_order(f"{name}.keys", keys[len(self._own_keys) :])
        self.arguments = _in_order(f"{name}.arguments", declares(text, "ARGV"))
        self.first_attempt_args = _in_order(f"{name}.first_attempt_args", declares(text, "ONCE"))
        self._unmoved = linked(text, SHARED)
        self.ends = "with_ended(" in self._unmoved
        self.move_clock(0)

    def move_clock(self, milliseconds: int) -> None:
        """Have the script read a clock that is so much ahead: see :func:`move_clock`."""
        self.text = self._unmoved.replace("local MOVED_MS = 0", f"local MOVED_MS = {milliseconds}")
        self.digest = sha1(self.text.encode(), usedforsecurity=False).hexdigest()

    def keys(self, partition: Partition, **others: str | bytes | Sequence[str]) -> tuple[bytes, ...]:
        """Return the keys in the script's order. ``others`` are those that ``partition`` does not name by itself."""
        named: Sequence[Any] = self._other_keys(**others)
        own = _keys_of(partition, self._own_keys)
        return (*own, *[key.encode() if isinstance(key, str) else key for key in named]) if named else own


@lru_cache(maxsize=4096)
def _keys_of(partition: Partition, names: tuple[str, ...]) -> tuple[bytes, ...]:
    keys = (getattr(partition, name) for name in names)
    # A script appends a user id or a sid to the name for "".
    return tuple((key("") if callable(key) else key).encode() for key in keys)


def _in_order(name: str, declared: Declared) -> Callable[..., Values]:
    """Make a function that takes the values of ``declared`` by name, and returns them in this order."""
    names = [each for each, _ in declared]
    flags, optional = ([each for each, kind in declared if kind == wanted] for wanted in ("flag", "?"))
    may_be_none = [each for each, kind in declared if kind in ("number", "list")]
    # From the last on: a list moves the values behind it.
    lists = [(position, kind) for position, (_, kind) in enumerate(declared) if kind in ("list", "...")][::-1]
    # By how many values are given: most often they are the first so many.
    picks = {count: _picked(names[:count]) for count in range(len(names) - len(optional), len(names) + 1)}

    def take(**given: Any) -> Values:
        try:
            for each in may_be_none:
                if given[each] is None:
                    given[each] = ""
            for flag in flags:
                given[flag] = int(given[flag])
            values = picks[len(given)](given)
        except KeyError:
            filled = {**dict.fromkeys(optional), **given}
            if wrong := filled.keys() ^ names:
                raise TypeError(f"{name}() got names that are missing or unknown: {sorted(wrong)}") from None
            values = picks[len(names)](filled)
        if optional and None in values:
            values = values[: values.index(None)]
        for position, kind in lists:
            value = values[position]
            if value != "":
                made = value if kind == "..." else (len(value), *value)
                values = (*values[:position], *made, *values[position + 1 :])
        return values

    return take


def _picked(names: Sequence[str]) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    # With one name, itemgetter returns no tuple.
    return itemgetter(*names) if len(names) > 1 else lambda given: (given[names[0]],) if names else ()


ARRIVE = Script("arrive")
CLEAN_ON_CREATE = Script("clean_on_create")
COPIES = Script("copies", task="scan")
COPY = Script("copy")
CREATE = Script("create")
CREATE_FAST = Script("create_fast", task="create")
DEPART = Script("depart")
END_ABOVE = Script("end_above")
END_BEFORE = Script("end_before")
END_RANGE = Script("end_range", task="end")
END_SIDS = Script("end_sids", task="end")
PROLONG = Script("prolong")
RECEIVE = Script("receive")
ROTATE = Script("rotate")
SAVE = Script("save")
SAVE_FAST = Script("save_fast", task="save")
TOUCH_PROVEN = Script("touch_proven", task="read")

BLOCK = Script("block")
RESTORE_BLOCK = Script("restore_block")
UNBLOCK = Script("unblock")

COUNT_TRY = Script("count_try", repeatable=False)

LOCK = Script("lock")
UNLOCK = Script("unlock")

COUNT = Script("count")
FIND = Script("find")
NEWEST = Script("newest")
PAGE = Script("page")
READ_RECORDS = Script("read_records")
READ_SAMPLES = Script("read_samples")
TAKE_SAMPLE = Script("take_sample")

COUNT_ITEMS = Script("count_items")
COUNT_VIEW = Script("count_view", repeatable=False)
FORGET_ITEMS = Script("forget_items")
ITEMS_BY_RANK = Script("items_by_rank")
RECENT_ITEMS = Script("recent_items")
RECORD_VIEW = Script("record_view", repeatable=False)
RESET_COUNTS = Script("reset_counts")
TRIM_ITEMS = Script("trim_items")
VIEW_COUNTS = Script("view_counts")

BACKLOG = Script("backlog")
CHECK_ENTRIES = Script("check_entries")
CHECK_KEYS = Script("check_keys")
EVICT = Script("evict")
EXPIRE = Script("expire")
NEXT_DEADLINE = Script("next_deadline")
SCAN_KEYS = Script("scan_keys")

AGREEMENT = Script("agreement")
ACL = Script("acl")


def all_scripts() -> list[Script]:
    """Return all scripts."""
    return [value for value in globals().values() if isinstance(value, Script)]


def move_clock(milliseconds: int) -> None:
    """
    Have all scripts of this process read a clock that is so much ahead. Only for tests.

    Each script then has another text and another digest. So this costs production nothing.
    """
    for script in all_scripts():
        script.move_clock(milliseconds)


@cache
def commands_of_scripts(*scripts: Script) -> list[str]:
    """Name the commands that ``scripts``, or all scripts, may run, as their texts have them."""
    texts = [script.text for script in scripts or all_scripts()]
    calls = [call for text in texts for call in re.findall(r"redis\.p?call\(([^,)]+)", text)]
    return sorted({name for call in calls for name in re.findall(r'"([A-Z]+)"', call)})
