"""SESSION_SERIALIZER changes while processes with the old and the new one run: each record is read by what wrote it."""

import logging
import pickle
import sys
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import AsyncClient, Client, override_settings

from django_redsess import online
from django_redsess.backend import SessionStore
from tests.golden import serializers
from tests.helpers.outages import lines_of
from tests.helpers.store import keyspace, pack, unpack
from tests.helpers.visitors import Browser

pytestmark = pytest.mark.django_db

DJANGOS = "django.contrib.sessions.serializers.JSONSerializer"
PICKLES, BACKWARDS = f"{serializers.__name__}.Pickles", f"{serializers.__name__}.Backwards"


def record_of(redis: Any, session: SessionStore) -> Any:
    sid = str(session.sid)
    return unpack(sid, redis.hget(keyspace().of_sid(sid).login, sid))


@pytest.mark.parametrize(("old", "new"), [(DJANGOS, PICKLES), (PICKLES, DJANGOS), (PICKLES, BACKWARDS)])
@pytest.mark.parametrize("client", [Client, AsyncClient], ids=["wsgi", "asgi"])
def test_nobody_is_signed_out_by_a_rolling_deploy(settings, redis, old: str, new: str, client) -> None:
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    settings.SESSION_SERIALIZER = old
    browser = Browser(client())
    alice = User.objects.create_user("alice")
    browser.sign_in(alice)
    for number, serializer in enumerate((new, old, new, new, old)):
        settings.SESSION_SERIALIZER = serializer
        assert browser.get("/user-id/").content == str(alice.pk).encode()
        details = online.details(str(browser.sid))
        assert details is not None
        assert (details.data or {})["_auth_user_id"] == str(alice.pk)
        browser.post(f"{browser.views}/write/colour/{number}/")
        assert browser.get(f"{browser.views}/read/colour/").content == str(number).encode()
        record = record_of(redis, SessionStore(browser.cookie))
        assert record.serializer == ("" if serializer == DJANGOS else serializer)


@pytest.mark.parametrize(("old", "new"), [(DJANGOS, PICKLES), (PICKLES, DJANGOS)])
def test_concurrent_changes_by_both_are_merged(settings, new_session, old: str, new: str) -> None:
    settings.SESSION_SERIALIZER = old
    # A tuple, which JSON makes a list of, is no change by itself.
    session = new_session("7", pair=(1, 2), shared="old", left=1)
    key = session.session_key
    with override_settings(SESSION_SERIALIZER=new):
        mine = SessionStore(key)
        assert mine["shared"] == "old"
        mine["mine"] = True
        del mine["left"]
    theirs = SessionStore(key)
    theirs["pair"] = "changed"
    theirs["theirs"] = True
    theirs.save()
    with override_settings(SESSION_SERIALIZER=new):
        mine.save()
    for serializer in (old, new):
        with override_settings(SESSION_SERIALIZER=serializer):
            data = SessionStore(key).load()
            assert data == {"_auth_user_id": "7", "pair": "changed", "shared": "old", "mine": True, "theirs": True}


def test_a_record_whose_serializer_is_gone_is_logged_with_its_name(settings, new_session, caplog, monkeypatch) -> None:
    settings.SESSION_SERIALIZER = PICKLES
    session = new_session("7")
    monkeypatch.delattr(serializers, "Pickles")
    settings.SESSION_SERIALIZER = DJANGOS
    assert SessionStore(session.session_key).load() == {}
    [line] = lines_of(caplog, "django.security.SuspiciousSession", logging.WARNING)
    assert line == f"Session data of {session.sid} is not usable: its serializer '{PICKLES}' can't be imported"
    assert online.count() == 1


def test_nothing_is_imported_for_a_record_that_is_not_ours(settings, redis, new_session, caplog) -> None:
    session = new_session("7")
    sid, record = str(session.sid), record_of(redis, session)
    sys.modules.pop("this", None)
    with override_settings(SECRET_KEY="another"):
        forged = pack(sid, record._replace(serializer="this.Serializer"))
    redis.hset(keyspace().of_sid(sid).login, sid, forged)
    assert SessionStore(session.session_key).load() == {}
    [line] = lines_of(caplog, "django.security.SuspiciousSession", logging.WARNING)
    assert line == f"Session data of {sid} is not usable: the seal does not fit"
    assert "this" not in sys.modules


def test_what_a_serializer_says_of_the_data_is_not_logged(settings, new_session, caplog, monkeypatch) -> None:
    def refuse(self: serializers.Pickles, data: bytes) -> Any:
        raise ValueError(f"unreadable: {pickle.loads(data)}")

    settings.SESSION_SERIALIZER = PICKLES
    session = new_session("7", colour="blue")
    monkeypatch.setattr(serializers.Pickles, "loads", refuse)
    assert SessionStore(session.session_key).load() == {}
    [line] = lines_of(caplog, "django.security.SuspiciousSession", logging.WARNING)
    assert line == f"Session data of {session.sid} is not usable: ValueError"
