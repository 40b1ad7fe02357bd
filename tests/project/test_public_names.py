"""Whoever changes a public name sees it in the diff: ``docs/reference/public-names.txt`` has all of them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.dispatch import Signal
from django.test import Client
from django.utils import timezone

from django_redsess import online
from django_redsess.signals import UnprovenRequest, send_signals
from tests.helpers.public_names import names_file, python
from tests.helpers.tree import copy_tree

ADVICE = """
What is removed or changed needs a deprecation before: see "Deprecate a public name" in CONTRIBUTING.rst.
Each change needs a line in CHANGELOG.rst. Then write the file anew: make public-names"""


@pytest.mark.unit
def test_the_file_has_all_public_names() -> None:
    text, now = names_file.FILE.read_text(encoding="utf-8"), names_file.collected()
    changed = names_file.differences(names_file.read(text), now)
    assert not changed, "\n".join(["Public names have changed:", *changed, ADVICE])
    assert text == names_file.text_of(now), f"The file is not as it is written. {ADVICE}"


@pytest.mark.unit
def test_there_are_names_of_each_kind() -> None:
    assert [kind for kind, names in names_file.read(names_file.FILE.read_text()).items() if not names] == []


CHANGES = {
    "django_redsess/online/__init__.py": ("def unblock(user: ", "def unblock(person: "),
    "django_redsess/conf.py": ("    TOUCH_INTERVAL = ", "    TOUCHES = "),
    "django_redsess/contrib/history/receivers.py": ("is_new_network=is_new", "from_new_network=is_new"),
    "django_redsess/signals.py": ('"request": request}', '"asked": request}'),
    "django_redsess/management/commands/endsessions.py": ('"--new-secret-key"', '"--rotated-secret-key"'),
    "django_redsess/templates/django_redsess/question.html": ("{% block title %}", "{% block heading %}"),
    "django_redsess/accounts/views.py": ('"own_sid": own_sid', '"this_sid": own_sid'),
    "django_redsess/accounts/urls.py": ('"not-me/"', '"no-me/"'),
    "django_redsess/models.py": ('("block_user"', '("block_a_user"'),
    "django_redsess/contrib/api/schemas.py": ("    may_return: ", "    may_come_back: "),
    "django_redsess/session/notice.py": ('"X-Session-Ended"', '"X-Session-Over"'),
    "django_redsess/viewed/__init__.py": ('.info("A view was not', '.info("No view was'),
    "django_redsess/contrib/prometheus/observer.py": ('"redsess_outage"', '"redsess_outage_now"'),
    "django_redsess/contrib/opentelemetry.py": ('"db.namespace"', '"db.number"'),
    "django_redsess/transport/keys.py": ('_name("wake")', '_name("waker")'),
    "pyproject.toml": ("\nplaces = ", "\ngeoip = "),
}
"""Of some files a text that stands there, and what it becomes."""

FOUND = """
- Python: django_redsess.online.unblock(user)
+ Python: django_redsess.online.unblock(person)
- Signals: django_redsess.contrib.history.signals.new_device: is_new_network
+ Signals: django_redsess.contrib.history.signals.new_device: from_new_network
- Signals: django_redsess.signals.sessions_ended: request
+ Signals: django_redsess.signals.sessions_ended: asked
- Settings: TOUCH_INTERVAL = 10
+ Settings: TOUCHES = 10
- Commands: endsessions --new-secret-key
+ Commands: endsessions --rotated-secret-key
- Extras: places
+ Extras: geoip
- Permissions: django_redsess.block_user
+ Permissions: django_redsess.block_a_user
- URLs: django_redsess:not_me not-me/
+ URLs: django_redsess:not_me no-me/
- Templates: django_redsess/question.html: block title
+ Templates: django_redsess/question.html: block heading
- Templates: django_redsess/sessions.html: context own_sid
+ Templates: django_redsess/sessions.html: context this_sid
- JSON API: schema Ended.may_return: boolean (required)
+ JSON API: schema Ended.may_come_back: boolean (required)
- HTTP headers: sent X-Session-Ended
+ HTTP headers: sent X-Session-Over
- Log: django_redsess INFO: A view was not recorded.
+ Log: django_redsess INFO: No view was recorded.
- Prometheus: redsess_outage gauge{server}
+ Prometheus: redsess_outage_now gauge{server}
- OpenTelemetry: span redsess …: db.namespace
+ OpenTelemetry: span redsess …: db.number
- Redis: {shop}:wake
+ Redis: {shop}:waker
"""


@pytest.mark.slow
@pytest.mark.unit
def test_a_change_of_each_kind_is_found(tmp_path: Path) -> None:
    copy_tree(tmp_path)
    for name, (old, new) in CHANGES.items():
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert old in text, f"{name} has no {old!r} any more"
        (tmp_path / name).write_text(text.replace(old, new), encoding="utf-8")
    command = [sys.executable, "-m", "tests.helpers.public_names", "--check"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "REDSESS_DEMO_DIR": str(tmp_path / "demo")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stderr
    assert done.stdout, done.stderr
    assert sorted({*FOUND.strip().splitlines()} - {*done.stdout.splitlines()}) == []


@pytest.fixture
def heard() -> Iterator[set[str]]:
    """What receivers got, as the file has it."""
    found: set[str] = set()

    def receive(signal: Signal, sender: object, **arguments: object) -> None:
        found.update(f"{names[signal]}: {argument}" for argument in arguments)

    public = [each for each in python.documented() if isinstance(each.value, Signal)]
    names = {each.value: f"{each.module}.{each.name}" for each in public}
    for signal in names:
        signal.connect(receive)
    yield found
    for signal in names:
        signal.disconnect(receive)


@pytest.mark.usefixtures("history")
def test_receivers_get_what_the_file_says(heard: set[str]) -> None:
    alice = User.objects.create_user("alice", password="secret")
    for _ in "first device", "second device":
        assert Client().post("/login/", {"username": "alice", "password": "secret"}).status_code == 302
    online.block(alice, until=timezone.now() + timedelta(hours=1))
    online.unblock(alice)
    unproven = UnprovenRequest("", "", timezone.now(), "", "", "", never_refreshed=True, refused=True)
    send_signals([unproven])
    assert sorted(heard) == names_file.read(names_file.FILE.read_text(encoding="utf-8"))["Signals"]


@pytest.mark.unit
def test_the_reference_has_the_context_of_templates() -> None:
    page = (python.REFERENCE / "templates.rst").read_text(encoding="utf-8")
    contexts = [name for name in names_file.collected_of("Templates") if ": context " in name]
    assert len(contexts) > 20
    assert [name for name in contexts if f"``{name.rpartition(' ')[2].rpartition('.')[2]}``" not in page] == []
