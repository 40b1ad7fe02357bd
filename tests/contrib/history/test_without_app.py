"""A site without the app: nothing of it is imported, and nobody listens to what it would record."""

import json
import subprocess
import sys

import pytest

from testproject.servers import Server
from tests.project.docs.pages import ROOT, environment

# Without a database: a load, a sign-in and an end must not need one. The calls of Python are counted.
SITE = """
import json, sys
from django.conf import settings
from testproject import settings as shop

given = {name: getattr(shop, name) for name in dir(shop) if name.isupper()}
given["INSTALLED_APPS"] = [app for app in given["INSTALLED_APPS"] if app not in LEFT_OUT]
given["DATABASES"] = {}
given["REDSESS"] = {**given["REDSESS"], "PARTITIONS": 1, "MAX_SESSIONS_PER_USER": None}
settings.configure(**given)
import django
django.setup()

from django_redsess import online
from django_redsess.backend import SessionStore

def sign_in():
    session = SessionStore()
    session["_auth_user_id"] = "7"
    session.save()
    return session

def load(session):
    return SessionStore(session.session_key)["_auth_user_id"]

def calls(work, *arguments):
    work(*arguments)
    count = 0
    def note(frame, event, arg):
        nonlocal count
        count += event == "call"
    sys.setprofile(note)
    try:
        work(*arguments)
    finally:
        sys.setprofile(None)
    return count

session = sign_in()
counts = {"sign-in": calls(sign_in), "load": calls(load, session)}
online.end(session.sid)
imported = [name for name in sys.modules if name.startswith("django_redsess.contrib.history")]
from django_redsess.signals import signals_are_wanted
print(json.dumps({"counts": counts, "imported": imported, "listens": signals_are_wanted()}))
"""


def told(server: Server, *left_out: str) -> dict[str, object]:
    code = SITE.replace("LEFT_OUT", repr(left_out))
    env = {**environment(), "REDIS_URL": server.url}
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, object] = json.loads(ran.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("left_alone")
def test_nothing_is_imported_and_nobody_listens(server: Server) -> None:
    without = told(server, "django_redsess.contrib.history")
    assert (without["imported"], without["listens"]) == ([], False)
    # With the app there is more to a sign-in, but not to a load.
    with_app = told(server)
    assert with_app["imported"]
    assert with_app["counts"]["load"] == without["counts"]["load"]
    assert with_app["counts"]["sign-in"] > without["counts"]["sign-in"] + 10
