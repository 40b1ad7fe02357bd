import pytest

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from django_redsess.transport import lua_scripts
from django_redsess.transport.lua_scripts import Script

pytestmark = pytest.mark.both_servers


@pytest.fixture(params=[2, 3], ids=["RESP2", "RESP3"])
def protocol(request, settings, server) -> None:
    sessions = settings.CACHES["sessions"]
    # The pool is found by its URL: another URL for each protocol.
    location = f"{server.url}?protocol={request.param}"
    settings.CACHES = {"sessions": {**sessions, "LOCATION": location}}


def test_replies_read_the_same_in_both_protocols(protocol, new_session) -> None:
    session = new_session("7", colour="blue")
    assert SessionStore(session.session_key)["colour"] == "blue"
    assert viewed.record(session, "lamp")
    assert [found.item for found in viewed.recent(session)] == ["lamp"]
    assert viewed.popular() == [("lamp", 1)]
    assert (viewed.count("lamp"), viewed.count("vase")) == (1, 0)
    assert [found.user_id for found in online.sessions()] == ["7"]
    assert online.sessions(user_ids=["7", "8"]) == online.sessions()
    assert online.count() == 1
    assert [ended.user_id for ended in online.end(session.sid)] == ["7"]
    assert SessionStore(session.session_key).load() == {}


@pytest.mark.parametrize("script", lua_scripts.every(), ids=lambda script: script.name)
def test_every_script_begins_with_a_comment_and_compiles(redis, script: Script) -> None:
    assert script.text.startswith("-- ")
    assert redis.script_load(script.text) == script.digest
