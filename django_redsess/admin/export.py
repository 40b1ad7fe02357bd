"""Exports as CSV or JSON files: what lists share, and the export of sessions."""

from __future__ import annotations

import csv
import json
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from asgiref.sync import sync_to_async
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponseBadRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils import translation

from django_redsess.admin import log_entries
from django_redsess.admin.access import Access
from django_redsess.online import fields
from django_redsess.online.fields import ExportedRow, csv_row, exported_row
from django_redsess.online.labels import known_server_day
from django_redsess.querysets import SessionQuerySet

AT_ONCE = 1000  # Sessions are written in batches of so many.

BYTE_ORDER_MARK = "\ufeff"  # Without it, Excel reads a CSV file in the code page of the system, and garbles names.

CUT_OFF = b"INCOMPLETE: an error has cut off this file.\r\n"
"""The last row of an incomplete CSV file. An incomplete JSON file has no closing bracket."""

logger = logging.getLogger("django_redsess")

Batches = Iterator[list[ExportedRow]]


def export_view(access: Access) -> HttpResponseBase:
    """Send the sessions that match the query, in the ``format`` of the form."""
    admin, request = access.admin, access.request
    if not admin.has_export_permission(request):
        raise PermissionDenied
    file_format = request.POST.get("format", "")
    if file_format not in ("csv", "json"):
        return HttpResponseBadRequest()
    listed = admin.changelist_of(request, request.GET.urlencode())
    if listed is None:
        return HttpResponseBadRequest()
    sessions: SessionQuerySet = listed.queryset
    # Saved before the first byte is sent: a client that breaks off may have received a part.
    log_entries.save_export(request, sessions.count(), file_format, query_text(request))
    batches = _session_batches(access, sessions)
    looked_through, is_all = sessions.looked_through, not sessions.is_cut
    newest = "" if looked_through is None or looked_through.is_all else f"-of-newest-{looked_through.count}"
    last = {"is_all": is_all, "looked_through": looked_through and looked_through.count}
    content = Content("sessions", fields.SESSION, batches, last)
    return file_response(request, f"online-sessions-{{}}{'' if is_all else newest or '-part'}", file_format, content)


def query_text(request: HttpRequest) -> str:
    """Return the query of ``request`` as the history shows it."""
    return "&".join(f"{name}={value}" for name, values in request.GET.lists() for value in values)


class Content(NamedTuple):
    """
    What is in a file: records of these ``columns``, in ``batches``.

    In JSON, ``name`` is that of their list, and ``last`` are the values that follow it.
    """

    name: str
    columns: Sequence[fields.Field]
    batches: Batches
    last: Mapping[str, Any]


def file_response(request: HttpRequest, name: str, file_format: str, content: Content) -> StreamingHttpResponse:
    """Return a response that streams a file of this format, ``csv`` or ``json``. ``{}`` in ``name`` is the date."""
    if file_format == "csv":
        content_type, parts = "text/csv", _telling_of_failure(_csv(content), CUT_OFF)
    else:
        content_type, parts = "application/json", _telling_of_failure(_json(content), b"")
    whole_name = f"{name.format(known_server_day().isoformat())}.{file_format}"
    return StreamingHttpResponse(
        # An ASGI server would collect a synchronous iterator before it sends anything.
        _in_threads(parts) if isinstance(request, ASGIRequest) else parts,
        content_type=f"{content_type}; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{whole_name}"'},
    )


def _session_batches(access: Access, sessions: SessionQuerySet) -> Batches:
    """Read the sessions in batches. A session that moves within the list meanwhile may be left out, or come twice."""
    batches, before = sessions.in_pages(AT_ONCE), set[str]()
    while True:
        # The file is the same in all languages.
        with translation.override(None):
            batch = next(batches, None)
            if batch is None:
                return
            seen = [each for each in batch if each.sid not in before and access.may_see(each)]
            users = {each.user_id: each.user for each in seen if each.user}
            described = fields.describe_sessions([each.session for each in seen], users, access.own_sid)
        before = {each.sid for each in batch}
        yield [exported_row(each, fields.SESSION) for each in described]


def _csv(content: Content) -> Iterator[bytes]:
    written: list[str] = []

    class Lines:
        write = written.append

    writer = csv.writer(Lines)
    written.append(BYTE_ORDER_MARK)
    writer.writerow([field.name for field in content.columns])
    for rows in chain([[]], content.batches):
        writer.writerows(csv_row(row, content.columns) for row in rows)
        # A record may hold any text, even half of a surrogate pair.
        yield "".join(written).encode(errors="backslashreplace")
        written.clear()


def _json(content: Content) -> Iterator[bytes]:
    """Write an object with a record in each line. The values behind the records show that the file is complete."""
    count = 0
    yield f'{{"{content.name}": ['.encode()
    for rows in content.batches:
        lines = (("," if count + number else "") + "\n" + json.dumps(row) for number, row in enumerate(rows))
        yield "".join(lines).encode()
        count += len(rows)
    yield f"\n], {json.dumps({'count': count, **content.last})[1:]}\n".encode()


def _telling_of_failure(parts: Iterator[bytes], last: bytes) -> Iterator[bytes]:
    """Yield ``parts``. On an error, yield ``last`` and raise the error: then the server breaks the response off."""
    try:
        yield from parts
    except Exception:
        # The status was sent before, and not every client notices a broken response. The server logs the error itself.
        logger.error("An export was cut off by an error.")
        if last:
            yield last
        raise


async def _in_threads(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield ``parts``. Each is made in the thread for synchronous code."""
    # StopIteration can't be raised out of a thread.
    make = sync_to_async(lambda: next(parts, None))
    while (part := await make()) is not None:
        yield part
