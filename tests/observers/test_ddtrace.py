"""ddtrace gets the spans by its bridge for OpenTelemetry."""

import json
import os
from pathlib import Path

import pytest

from tests.helpers.running import ROOT, run_python

SITE = """
import json

import ddtrace.auto
from ddtrace.trace import TraceFilter, tracer


class Kept(TraceFilter):
    def process_trace(self, trace):
        found.extend(trace)


found = []
tracer.configure(trace_processors=[Kept()])

import django

django.setup()

from django_redsess.backend import SessionStore

session = SessionStore()
session["colour"] = "blue"
session.save()
with tracer.trace("django.request") as request:
    assert SessionStore(session.session_key)["colour"] == "blue"

shown = [
    {"name": span.resource, "tags": span.get_tags(), "in_request": span.parent_id == request.span_id}
    for span in found
]
print(json.dumps(shown))
"""


@pytest.mark.slow
def test_spans_are_under_those_of_ddtrace(server, tmp_path: Path) -> None:
    # In a process of its own, because the import of ddtrace.auto changes many modules.
    settings = tmp_path / "settings_with_traces.py"
    settings.write_text(
        "from testproject.settings import *\n"
        'REDSESS = {**REDSESS, "OBSERVERS": ["django_redsess.contrib.opentelemetry.Observer"]}\n'
    )
    env = {
        "DD_TRACE_OTEL_ENABLED": "true",
        "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
        "DD_REMOTE_CONFIGURATION_ENABLED": "false",
        "DD_TRACE_STARTUP_LOGS": "false",
        "DJANGO_SETTINGS_MODULE": settings.stem,
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}",
        "REDIS_URL": server.url,
        "HISTORY": "0",
    }
    spans = json.loads(run_python("-c", SITE, **env).splitlines()[-1])
    (read,) = [span for span in spans if span["name"] == "redsess read"]
    assert read["in_request"]
    assert read["tags"]["db.system.name"] == "redis"
    assert read["tags"]["span.kind"] == "client"
