"""The Lua scripts, read once from ``lua/``."""

from __future__ import annotations

import re
from hashlib import sha1
from importlib.resources import files

FOLDER = files("django_redsess") / "lua"


class Script:
    """
    One script: its text and the digest by which the server knows it.

    A line ``-- include other.lua`` stands for the text of that file. ``repeatable`` says whether a second run, after
    the reply to the first was lost, changes nothing more; ``ends`` that its reply is that of ``with_ended``, in
    ``remove.lua``: what it asks for, and which sessions have ended with that. ``task`` is what it is a short way to do:
    in an outage the two are one.
    """

    def __init__(self, name: str, *, repeatable: bool = True, ends: bool = False, task: str = "") -> None:
        def included(line: re.Match[str]) -> str:
            return (FOLDER / line[1]).read_text(encoding="utf-8")

        self.name, self.task = name, task or name
        self.repeatable = repeatable
        self.ends = ends
        text = (FOLDER / f"{name}.lua").read_text(encoding="utf-8")
        self.text = re.sub(r"^-- include (\w+\.lua)$", included, text, flags=re.MULTILINE)
        self.digest = sha1(self.text.encode(), usedforsecurity=False).hexdigest()


CHANGE = Script("change", task="save")
PROLONG = Script("prolong")
ADD = Script("add", task="create")
CREATE = Script("create", ends=True)
SAVE = Script("save", ends=True)
ROTATE = Script("rotate", ends=True)
LIMIT = Script("limit", ends=True)
END = Script("end", ends=True)
EXPIRE = Script("expire", ends=True)
EVICT = Script("evict", ends=True)
CLEAN = Script("clean", ends=True)
COUNT = Script("count", ends=True)
PAGE = Script("page", ends=True)
FIND = Script("find")
RANKS = Script("ranks")
VIEW = Script("view", repeatable=False)
COUNT_VIEW = Script("count_view", repeatable=False)
HISTORY = Script("history")
FORGET = Script("forget")
ITEMS = Script("items")
VIEWS = Script("views")
POPULARITY = Script("popularity")
RESET = Script("reset")
TRIM = Script("trim")
NEXT = Script("next")
BACKLOG = Script("backlog")
SAMPLE = Script("sample")
SAMPLES = Script("samples")
CHECK = Script("check", ends=True)
CHECK_NAMES = Script("check_names")
NAMES = Script("names")
META = Script("meta")
MAY = Script("may")


def commands() -> list[str]:
    """Name the commands that the scripts run, as their texts have them."""
    texts = [script.text for script in globals().values() if isinstance(script, Script)]
    calls = [call for text in texts for call in re.findall(r"redis\.p?call\(([^,)]+)", text)]
    return sorted({name for call in calls for name in re.findall(r'"([A-Z]+)"', call)})
