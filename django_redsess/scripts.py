"""The Lua scripts, read once from ``lua/``, and how one is run."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import sha1
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from redis.exceptions import NoScriptError

if TYPE_CHECKING:
    from redis import Redis

FOLDER = files("django_redsess") / "lua"


class Script:
    """
    One script: its text and the digest by which the server knows it.

    A line ``-- include other.lua`` stands for the text of that file.
    """

    def __init__(self, name: str) -> None:
        def included(line: re.Match[str]) -> str:
            return (FOLDER / line[1]).read_text(encoding="utf-8")

        text = (FOLDER / f"{name}.lua").read_text(encoding="utf-8")
        self.text = re.sub(r"^-- include (\w+\.lua)$", included, text, flags=re.MULTILINE)
        self.digest = sha1(self.text.encode(), usedforsecurity=False).hexdigest()

    def run(self, connection: Redis, keys: Sequence[str], args: Sequence[str | bytes | int]) -> Any:
        """
        Run the script on the server and return its reply.

        A server that does not know the script (restarted, or told to forget) is sent the text instead. Raises what
        redis-py raises: ``ConnectionError`` and ``TimeoutError`` when the server can't be reached, ``ResponseError``
        when it refuses.
        """
        execute: Callable[..., Any] = connection.execute_command
        operands = (len(keys), *keys, *args)
        try:
            return execute("EVALSHA", self.digest, *operands)
        except NoScriptError:
            return execute("EVAL", self.text, *operands)


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
VIEW = Script("view")
COUNT_VIEW = Script("count_view")
ITEMS = Script("items")
VIEWS = Script("views")
