"""Scripts as they are put together: what they declare, what they need, and the names in them. No server is asked."""

import re
import subprocess
from pathlib import Path

import pytest

from django_redsess.transport import lua_scripts
from django_redsess.transport.keys import Partition
from django_redsess.transport.lua_scripts import CONSTANTS, FOLDER, Script, Source, shared
from tests.lua import lint
from tests.lua.names import problems

pytestmark = pytest.mark.unit

LUA = Path(str(FOLDER))
PARTS = sorted(path.stem for path in LUA.glob("lib/*.lua"))
LABELS = {"KEYS", "ARGV", "ONCE"}
FILES = sorted(path.relative_to(LUA).with_suffix("").as_posix() for path in LUA.rglob("*.lua"))


def words_in(source: Source) -> set[str]:
    return set().union(*(block.words for block in source.blocks))


def names_in(part: str) -> set[str]:
    """The names that a shared part gives to who needs it, those of its keys too."""
    defined = re.findall(r"^local (?:function )?([\w, ]+)", shared(part).body, re.MULTILINE)
    return {name.strip() for names in defined for name in names.split(",")} | {key.name for key in shared(part).keys}


@pytest.mark.parametrize("script", lua_scripts.every(), ids=lambda script: script.path)
def test_every_name_is_defined_before_it_is_used_and_hides_no_other(script: Script) -> None:
    assert problems(script.text) == []


@pytest.mark.parametrize(
    ("text", "found"),
    {
        "a missing part": ("return digits(1)", ["digits is not defined"]),
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


def test_every_file_is_a_script_or_a_part_that_a_script_needs() -> None:
    needed = {name for path in FILES if not path.startswith("lib/") for name in lua_scripts.parts_of(Source(path))}
    paths = {script.path for script in lua_scripts.every()} | {f"lib/{name}" for name in {*needed, "constants"}}
    assert paths == set(FILES)


@pytest.mark.parametrize("path", [path for path in FILES if path != "lib/constants"])
def test_a_file_names_the_parts_that_it_uses_itself_and_no_others(path: str) -> None:
    source = Source(path)
    # Besides what a file defines itself, this part takes two keys from whatever script needs it.
    own = {key.name for key in source.keys} | ({"popularity", "totals"} if path == "lib/popularity" else set())
    words = words_in(source) - own
    assert [part for part in source.needs if not names_in(part) & words] == []
    others = set(PARTS) - {"arguments", "constants", *source.needs, path.removeprefix("lib/")}
    assert [part for part in others if names_in(part) & words] == []


def test_every_function_of_a_part_is_called() -> None:
    texts = [script.text for script in lua_scripts.every()]
    functions = [block.function for part in PARTS for block in shared(part).blocks if block.function]
    assert len(functions) > 30
    assert [name for name in functions if not any(f"local function {name}(" in text for text in texts)] == []


def test_a_constant_has_one_place_and_is_used() -> None:
    words = [words_in(Source(path)) for path in FILES if path != "lib/constants"]
    assert [name for name in CONSTANTS if not any(name in each for each in words)] == []
    for path in FILES:
        if path != "lib/constants":
            numbers = {int(number) for number in re.findall(r"\b\d+\b", re.sub("--.*", "", Source(path).body))}
            assert numbers & (set(CONSTANTS.values()) - {200}) == set(), path


@pytest.mark.parametrize("script", lua_scripts.every(), ids=lambda script: script.path)
def test_a_script_says_what_it_does_and_replies_and_uses_all_that_it_declares(script: Script) -> None:
    source = Source(script.path)
    assert re.match(r"-- [A-Z]", source.header)
    assert re.search(r"^-- Reply: ", source.header, re.MULTILINE)
    assert set(re.findall(r"^-- ([A-Z]+): ", source.header, re.MULTILINE)) <= LABELS
    declared = {each.name for each in (*source.keys, *source.arguments, *source.once)}
    used = set().union(*(words_in(shared(part)) for part in lua_scripts.parts_of(source)), words_in(source))
    assert declared - used == set()


def test_every_script_is_tested_by_itself() -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in (Path(__file__).parents[1] / "lua").glob("test_*.py"))
    names = [name for name, value in vars(lua_scripts).items() if isinstance(value, Script)]
    assert [name for name in names if f"scripts.{name}" not in tests] == []


def test_arguments_are_taken_by_name_and_returned_in_the_order_of_the_script() -> None:
    assert lua_scripts.CHANGE.arguments(due=9, record=b"r", loaded=b"l", sid="s") == ("s", b"l", b"r", 9)
    assert lua_scripts.EXPIRE.arguments(limit=5, named=True) == (5, 1)
    assert lua_scripts.PERMISSIONS.arguments(names=["k"], commands=["A", "B"]) == (2, "A", "B", "k")
    assert lua_scripts.FORGET_ITEMS.arguments() == ()
    assert lua_scripts.FORGET_ITEMS.arguments(item="lamp") == ("lamp",)
    assert lua_scripts.CREATE.once(is_new=False) == (0,)
    assert lua_scripts.CREATE.once(is_new=True, item=b"lamp", keep=25, items_max=9) == (1, b"lamp", 25, 9)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sid": "s", "loaded": b"", "record": b""}, r"change\.arguments\(\) missing .* 'due'"),
        ({"sid": "s", "loaded": b"", "record": b"", "due": 1, "dew": 2}, r"change\.arguments\(\) .* 'dew'"),
    ],
)
def test_a_name_that_is_missing_or_unknown_is_a_type_error_that_names_the_script(given, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        lua_scripts.CHANGE.arguments(**given)


def test_keys_are_named_by_the_partition_and_by_the_caller() -> None:
    partition = Partition("p")
    assert lua_scripts.CHANGE.keys(partition) == (b"{p}:login", b"{p}:expire")
    of_save = lua_scripts.SAVE.keys(partition)
    assert len(of_save) == 12
    assert lua_scripts.SAVE.keys(partition, popularity=partition.viewed) == (*of_save, b"{p}:viewed")
    assert lua_scripts.COUNT.keys(partition, lists=["a", "b"]) == (*of_save, b"a", b"b")
    with pytest.raises(TypeError, match=r"check_entries\.keys\(\) missing .* 'walked'"):
        lua_scripts.CHECK_ENTRIES.keys(partition)
    with pytest.raises(TypeError, match=r"change\.keys\(\) .* 'lists'"):
        lua_scripts.CHANGE.keys(partition, lists=["a"])


def test_a_script_that_ends_sessions_is_known_by_the_part_that_it_needs() -> None:
    assert lua_scripts.END.ends
    assert not lua_scripts.CHANGE.ends
    assert all(("with_ended(" in Source(script.path).body) == script.ends for script in lua_scripts.every())


def test_the_linter_reads_what_the_server_gets(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lint.subprocess, "run", lambda command: subprocess.CompletedProcess(command, 0))
    monkeypatch.setattr(lint.shutil, "which", lambda name: None)
    assert lint.main() == 0
    assert "Lua was not linted" in capsys.readouterr().out
    monkeypatch.setattr(lint.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert lint.main() == 0
    for script in lua_scripts.every():
        assert (lint.FOLDER / f"{script.path}.lua").read_text(encoding="utf-8") == script.text
