"""Scripts as they are put together: what they declare, what they share, and the names in them. No server is asked."""

import re
import subprocess
from pathlib import Path

import pytest

from django_redsess.transport import lua_scripts
from django_redsess.transport.keys import Partition
from django_redsess.transport.lua_scripts import (
    CONSTANTS,
    FILES,
    FOLDER,
    SHARED,
    TEXTS,
    Block,
    Script,
    declares,
    linked,
)
from tests.lua import lint
from tests.lua.names import problems

pytestmark = pytest.mark.unit

LABELS = {"KEYS", "ARGV", "ONCE"}


@pytest.mark.parametrize("script", lua_scripts.every(), ids=lambda script: script.name)
def test_every_name_is_defined_before_it_is_used_and_hides_no_other(script: Script) -> None:
    assert problems(script.text) == []


@pytest.mark.parametrize(
    ("text", "found"),
    {
        "a missing block": ("return digits(1)", ["digits is not defined"]),
        "a function below its use": ("f()\nlocal function f() return 1 end", ["f is not defined"]),
        "a local of another block": ("if redis then\nlocal a = 1\nend\nreturn a", ["a is not defined"]),
        "a loop's name behind it": ("for a in pairs(KEYS) do a() end\nreturn a", ["a is not defined"]),
        "an argument behind its function": ("local function f(a) return a end\nf(a)", ["a is not defined"]),
        "a local that hides another": ("local a = 1\nif a then\nlocal a = 2\nreturn a end", ["a hides another"]),
        "an argument that hides a local": ("local a = 1\nlocal f = function(a) return a end", ["a hides another"]),
        "a local that hides Lua's": ("local table = {}", ["table hides another"]),
        "fields and texts": ('local t = { a = 1, b = "c" } -- d\nt.e = t.a', []),
    }.values(),
)
def test_names_that_are_wrong_are_found(text: str, found: list[str]) -> None:
    assert [problem.partition(": ")[2] for problem in problems(text)] == found


def test_a_block_is_kept_where_a_name_of_it_is_used_in_what_stands_below() -> None:
    shared = [
        Block(text) for text in ("-- Words: f.", "local a, b = 1, 2", "local function f() return b end", "local c")
    ]
    text = "-- some: Words.\n-- KEYS: samples lists...\n-- ARGV: at:number\nreturn f() + #lists + at -- c"
    local_names = "local lists = { unpack(KEYS, 2) }\n"
    blocks = "local a, b = 1, 2\n\nlocal function f() return b end\n\n"
    header, body = text[: text.index("return")], text[text.index("return") :]
    assert linked(text, shared) == f"{header}{local_names}{blocks}local at = tonumber(ARGV[1])\n{body}"


def test_every_file_is_read_and_every_script_in_it_has_a_name_here() -> None:
    assert {path.name for path in Path(str(FOLDER)).iterdir()} == {f"{name}.lua" for name in FILES}
    assert sorted(TEXTS) == sorted(script.name for script in lua_scripts.every())


def test_every_shared_name_is_used_and_has_one_place() -> None:
    texts = [script.text for script in lua_scripts.every()]
    assert [block.text for block in SHARED if block.names and not any(block.text in text for text in texts)] == []
    names = [name for block in SHARED for name in block.names]
    assert len(names) > 50
    assert sorted(names) == sorted(set(names))


def test_a_number_that_has_a_name_stands_nowhere_else() -> None:
    bodies = [Block(text).words for text in TEXTS.values()]
    blocks = [block.words for block in SHARED if not block.names & CONSTANTS.keys()]
    numbers = {str(number) for number in set(CONSTANTS.values()) - {200}}
    assert [words & numbers for words in (*bodies, *blocks) if words & numbers] == []


@pytest.mark.parametrize("script", lua_scripts.every(), ids=lambda script: script.name)
def test_a_script_says_what_it_does_and_replies_and_uses_all_that_it_declares(script: Script) -> None:
    text = TEXTS[script.name]
    assert re.match(rf"-- {script.name}: [A-Z]", text)
    assert re.search(r"(?m)^-- Reply: ", text)
    assert set(re.findall(r"(?m)^-- ([A-Z]+): ", text)) <= LABELS
    declared = {name for label in LABELS for name, _ in declares(text, label)}
    assert declared - Block(script.text).words <= set(lua_scripts.PARTITION.split())


def test_every_script_is_tested_by_itself() -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in (Path(__file__).parents[1] / "lua").glob("test_*.py"))
    names = [name for name, value in vars(lua_scripts).items() if isinstance(value, Script)]
    assert [name for name in names if f"scripts.{name}" not in tests] == []


def test_arguments_are_taken_by_name_and_returned_in_the_order_of_the_script() -> None:
    assert lua_scripts.CHANGE.arguments(due=9, record=b"r", loaded=b"l", sid="s") == ("s", b"l", b"r", 9)
    assert lua_scripts.CHANGE.arguments(due=9, record=b"r", loaded=b"l", sid="s", place=None) == ("s", b"l", b"r", 9)
    assert lua_scripts.CHANGE.arguments(due=9, record=b"r", loaded=b"l", sid="s", left="a") == ("s", b"l", b"r", 9)
    assert lua_scripts.EXPIRE.arguments(limit=5, named=True) == (5, 1)
    assert lua_scripts.PROLONG.arguments(sid="s", read=None, due=0) == ("s", "", 0)
    assert lua_scripts.PERMISSIONS.arguments(names=["k"], commands=["A", "B"]) == (2, "A", "B", "k")
    assert lua_scripts.TAKE_SAMPLE.arguments(lifetime=1, thinning=None, fields=()) == (1, "")
    assert lua_scripts.FORGET_ITEMS.arguments() == ()
    assert lua_scripts.FORGET_ITEMS.arguments(item="lamp") == ("lamp",)
    assert lua_scripts.NEXT_DEADLINE.arguments() == ()
    assert lua_scripts.CREATE.once(is_new=False) == (0,)
    assert lua_scripts.CREATE.once(is_new=True, item=b"lamp", keep=25, items_max=9) == (1, b"lamp", 25, 9)


@pytest.mark.parametrize(
    "script", [lua_scripts.CHANGE, lua_scripts.ADD, lua_scripts.SAVE], ids=lambda script: script.name
)
def test_a_name_that_is_missing_or_unknown_is_a_type_error_that_names_the_script(script: Script) -> None:
    given = {name: 1 for name, kind in declares(script.text, "ARGV") if kind != "?"}
    for name in given:
        without = {each: 1 for each in given if each != name}
        for wrong in (without, {**without, "dew": 2}):
            with pytest.raises(TypeError, match=rf"^{script.name}\.arguments\(\) .*'{name}'"):
                script.arguments(**wrong)
    with pytest.raises(TypeError, match=rf"^{script.name}\.arguments\(\) .*\['dew'\]"):
        script.arguments(**given, dew=2)


def test_keys_are_named_by_the_partition_and_by_the_caller() -> None:
    partition = Partition("p")
    assert lua_scripts.CHANGE.keys(partition) == (b"{p}:login", b"{p}:expire")
    of_save = lua_scripts.SAVE.keys(partition)
    assert len(of_save) == 12
    assert lua_scripts.SAVE.keys(partition, popularity=partition.viewed) == (*of_save, b"{p}:viewed")
    assert lua_scripts.COUNT.keys(partition, lists=["a", "b"]) == (*of_save, b"a", b"b")
    with pytest.raises(TypeError, match=r"check_entries\.keys\(\) .* \['walked'\]"):
        lua_scripts.CHECK_ENTRIES.keys(partition)
    with pytest.raises(TypeError, match=r"change\.keys\(\) .* \['lists'\]"):
        lua_scripts.CHANGE.keys(partition, lists=["a"])


def test_a_script_may_end_sessions_where_it_replies_what_has_ended() -> None:
    assert lua_scripts.END.ends
    assert not lua_scripts.CHANGE.ends
    assert all(("remove(" in script.text) == ("with_ended(" in TEXTS[script.name]) for script in lua_scripts.every())


def test_the_linter_reads_what_the_server_gets(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lint.subprocess, "run", lambda command: subprocess.CompletedProcess(command, 0))
    monkeypatch.setattr(lint.shutil, "which", lambda name: None)
    assert lint.main() == 0
    assert "Lua was not linted" in capsys.readouterr().out
    monkeypatch.setattr(lint.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert lint.main() == 0
    for script in lua_scripts.every():
        assert (lint.FOLDER / f"{script.name}.lua").read_text(encoding="utf-8") == script.text
