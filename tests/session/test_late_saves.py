"""What a save says that comes too late: in the exception, in the log, and to a client."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.backends.base import CreateError, UpdateError
from django.test import Client

import django_redsess
from django_redsess import online
from django_redsess.backend import SessionStore
from tests.helpers.accounts import sid_of


def rotate(session: SessionStore) -> None:
    session.cycle_key()
    session.save()


MEANWHILE: dict[str, tuple[Callable[[SessionStore], object], str]] = {
    "kicked": (lambda session: online.end(str(session.sid)), "ended, or has expired"),
    "flushed": (lambda session: session.flush(), "ended, or has expired"),
    "rotated": (rotate, "another key"),
}


@pytest.mark.parametrize("what", MEANWHILE)
def test_a_late_save_says_what_has_happened_and_what_to_do(new_session, what) -> None:
    end, words = MEANWHILE[what]
    session = new_session("7", colour="blue")
    key = session.session_key
    late = SessionStore(key)
    late["colour"] = "red"
    end(session)
    keys = [key, session.session_key]
    with pytest.raises(UpdateError, match=f"Nothing was saved: the session .*{words}") as caught:
        late.save()
    [note] = caught.value.__notes__
    assert "the middleware answers with 400" in note
    is_told = any(each and each in f"{caught.value} {note}" for each in keys)
    assert not is_told
    with pytest.raises(UpdateError, match="Nothing was saved: "):
        late.save()


def test_a_taken_key_has_words_too(new_session) -> None:
    session = new_session("7")
    taken = SessionStore(session.session_key)
    taken["colour"] = "red"
    with pytest.raises(CreateError, match="the key is another session's"):
        taken.save(must_create=True)


@pytest.mark.django_db
def test_the_log_says_which_it_was_and_the_answer_is_400(settings, caplog, meanwhile) -> None:
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    browser = Client()
    browser.force_login(User.objects.create_user("alice"))
    key = browser.cookies["sessionid"].value
    sid = sid_of(browser)
    meanwhile(lambda: online.end(sid))
    answer = browser.get("/write/colour/red/")
    assert answer.status_code == 400
    [line] = [each for each in caplog.records if each.name == "django.request"]
    assert "Nothing was saved: the session was ended, or has expired, since it was loaded." in line.getMessage()
    is_told = key in line.getMessage()
    assert not is_told


WITHOUT_WORDS = {
    # Django's own admin raises it without words, and no page shows them.
    "PermissionDenied",
    # A method that a class derived from this one has.
    "NotImplementedError",
    # Caught where it is raised for, and never seen.
    "BindingChanged",
    "UnwrittenError",
    "BadSignature",
    # allauth's, whose middleware answers it.
    "ReauthenticationRequired",
}


@pytest.mark.unit
def test_nothing_is_raised_without_words() -> None:
    package = Path(django_redsess.__file__).parent
    found = []
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            raised = node.exc if isinstance(node, ast.Raise) else None
            if isinstance(raised, ast.Call) and not raised.args and not raised.keywords:
                raised = raised.func
            name = getattr(raised, "attr", getattr(raised, "id", ""))
            # A name in small letters is an exception that has been made before.
            if name[:1].isupper() and name not in WITHOUT_WORDS:
                found.append(f"{path.relative_to(package)}:{node.lineno}: raise {name}")
    assert found == []
