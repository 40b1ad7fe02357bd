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
    the reply to the first was lost, changes nothing more.
    """

    def __init__(self, name: str, *, repeatable: bool = True) -> None:
        def included(line: re.Match[str]) -> str:
            return (FOLDER / line[1]).read_text(encoding="utf-8")

        self.name = name
        self.repeatable = repeatable
        text = (FOLDER / f"{name}.lua").read_text(encoding="utf-8")
        self.text = re.sub(r"^-- include (\w+\.lua)$", included, text, flags=re.MULTILINE)
        self.digest = sha1(self.text.encode(), usedforsecurity=False).hexdigest()


LOAD = Script("load")
CREATE = Script("create")
SAVE = Script("save")
ROTATE = Script("rotate")
END = Script("end")
EXPIRE = Script("expire")
EVICT = Script("evict")
COUNT = Script("count")
PAGE = Script("page")
FIND = Script("find")
VIEW = Script("view", repeatable=False)
COUNT_VIEW = Script("count_view", repeatable=False)
ITEMS = Script("items")
VIEWS = Script("views")
META = Script("meta")
