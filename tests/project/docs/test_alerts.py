"""The alerts that a site may copy: Prometheus takes them, they fire in time, and what they ask for is there."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from django.test import Client

from django_redsess import cleaning
from django_redsess.contrib.prometheus.observer import Observer
from django_redsess.observers import Server
from tests.project.docs.pages import DOCS

ALERTS = DOCS / "howto" / "alerts.yml"


def promtool(*arguments: str, given: bytes = b"") -> tuple[int, str]:
    program = shutil.which("promtool")
    if program is None:
        if "REDSESS_SKIP_NOTHING" in os.environ:
            pytest.fail("promtool is not installed")
        pytest.skip("promtool is not installed")
    ran = subprocess.run(
        [program, *arguments], input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60
    )
    return ran.returncode, ran.stdout.decode()


def page() -> str:
    """The metrics of a site on which all has happened that they count."""
    cleaning.take_sample()
    observer = Observer()
    observer.operation("read", Server("127.0.0.1", 6379, 0), 0.001, None)
    for event in ("outage_begun", "outage_over"):
        observer.event(event, server="")
    observer.event("sign_in_refused", reason="limit")
    return Client().get("/metrics").content.decode()


@pytest.mark.unit
def test_prometheus_takes_the_alerts() -> None:
    status, said = promtool("check", "rules", str(ALERTS))
    assert (status, "8 rules found" in said) == (0, True), said


@pytest.mark.unit
def test_each_alert_fires_when_it_should_and_not_before() -> None:
    files = sorted(Path(__file__).parent.glob("alerts_*test.yml"))
    status, said = promtool("test", "rules", *map(str, files))
    assert status == 0, said
    names = re.findall(r"- alert: (\w+)", ALERTS.read_text())
    assert set(names) == set(re.findall(r'alertname="(\w+)"', "".join(file.read_text() for file in files)))


def test_each_metric_that_alerts_ask_for_is_exported() -> None:
    exported = set(re.findall(r"^(redsess_\w+)", page(), re.MULTILINE))
    asked = set(re.findall(r"\bredsess_\w+", ALERTS.read_text()))
    assert len(asked) >= 9
    assert asked <= exported


def test_the_guide_names_each_metric() -> None:
    exported = set(re.findall(r"^# TYPE (redsess_\w+)", page(), re.MULTILINE))
    named = set(re.findall(r"``(redsess_\w+)``", (DOCS / "howto" / "metrics.rst").read_text()))
    # One is there only with a setting. And the library adds the time at which it made each of its own.
    assert {name for name in exported if not name.endswith("_created")} == named - {"redsess_guests_limit"}


def test_the_names_of_metrics_are_as_prometheus_wants_them() -> None:
    assert promtool("check", "metrics", given=page().encode()) == (0, "")
