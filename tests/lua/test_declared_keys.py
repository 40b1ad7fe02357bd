"""
Scripts and a hash slot that moves key by key: none may begin to write, and then not reach a key.

A server looks for the keys that a script declares before it runs it. What the script makes of a name, it meets later.
"""

import re

import pytest

from django_redsess.transport import lua_scripts
from django_redsess.transport.lua_scripts import Script

pytestmark = pytest.mark.unit

MAKES_NAMES = re.compile(r"\b(?:online_user_of|viewed_by|ended_of) \.\.")


@pytest.mark.parametrize("script", lua_scripts.every(), ids=lambda script: script.name)
def test_a_script_that_makes_names_of_keys_declares_one_that_is_never_there(script: Script) -> None:
    if MAKES_NAMES.search(script.text):
        # add declares it only for a user, whose list it writes.
        assert not script.declares_all or script is lua_scripts.ADD


def test_some_scripts_declare_all() -> None:
    found = {script.name for script in lua_scripts.every() if script.declares_all}
    assert {"add", "change", "prolong", "count_view", "agreement"} <= found
    assert not {"end", "save", "rotate", "create", "page", "expire"} & found
