"""Scripts as they are put together: their files, arguments and keys. No server is asked."""

import re
from pathlib import Path

import pytest

from django_redsess.transport import scripts
from django_redsess.transport.keys import Partition
from django_redsess.transport.scripts import FILES, FOLDER, TEXTS, Script, declares

pytestmark = pytest.mark.unit

MAKES_NAMES = re.compile(r"\b(?:online_user_of|viewed_by|ended_of) \.\.")


def test_every_file_is_read_and_every_script_in_it_has_a_name_here() -> None:
    assert {path.name for path in Path(str(FOLDER)).iterdir()} == {f"{name}.lua" for name in FILES}
    assert sorted(TEXTS) == sorted(script.name for script in scripts.all_scripts())


@pytest.mark.parametrize("script", [scripts.SAVE_FAST, scripts.CREATE_FAST], ids=lambda script: script.name)
def test_a_name_that_is_missing_or_unknown_is_a_type_error_that_names_the_script(script: Script) -> None:
    given = {name: 1 for name, kind in declares(script.text, "ARGV") if kind != "?"}
    for name in given:
        without = {each: 1 for each in given if each != name}
        for wrong in (without, {**without, "dew": 2}):
            with pytest.raises(TypeError, match=rf"^{script.name}\.arguments\(\) .*'{name}'"):
                script.arguments(**wrong)
    with pytest.raises(TypeError, match=rf"^{script.name}\.arguments\(\) .*\['dew'\]"):
        script.arguments(**given, dew=2)
    for wrong_keys in ({"lists": ["a"]}, {"dew": "b"}):
        with pytest.raises(TypeError, match=rf"^{script.name}\.keys\(\) "):
            script.keys(Partition("p"), **wrong_keys)


def test_a_script_may_end_sessions_where_it_replies_what_has_ended() -> None:
    assert scripts.END_SIDS.ends
    assert all(
        ("remove_sessions(" in script.text) == ("with_ended(" in TEXTS[script.name]) for script in scripts.all_scripts()
    )


def test_no_script_begins_to_write_and_then_misses_a_key_while_a_slot_moves_key_by_key() -> None:
    """A server looks for declared keys before it runs a script, and for those whose names it makes while it runs."""
    declare_all = {script.name for script in scripts.all_scripts() if script.declares_all}
    make_names = {script.name for script in scripts.all_scripts() if MAKES_NAMES.search(script.text)}
    # create_fast declares the list of a user, which it writes.
    assert declare_all & make_names <= {"create_fast"}
    assert {"create_fast", "save_fast", "prolong", "count_view", "agreement"} <= declare_all
    assert not {"end_sids", "end_range", "save", "rotate", "create", "page", "expire"} & declare_all
