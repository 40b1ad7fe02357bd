"""The list of sessions as a file."""

from __future__ import annotations

import csv
import io
import json
import re
import resource
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import AsyncClient, Client, override_settings

from benchmarks.fill import fill
from django_redsess import online, viewed
from django_redsess.admin import OnlineSessionAdmin, export
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.online import searching
from testproject.servers import free_port
from tests.admin.visits import FIREFOX, from_place
from tests.helpers.admin_pages import LIST, staff, walk
from tests.helpers.outages import caches, our_errors

pytestmark = [pytest.mark.django_db, pytest.mark.on_cluster]

EXPORT = LIST + "export/"


def rows_of(response: Any) -> list[dict[str, str]]:
    """The rows of an exported CSV file."""
    assert response.status_code == 200, response.status_code
    text = response.getvalue().decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def as_csv(client: Client, query: str = "") -> list[dict[str, str]]:
    return rows_of(client.post(EXPORT + query, {"format": "csv"}))


def as_json(client: Client, query: str = "") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(client.post(EXPORT + query, {"format": "json"}).getvalue())
    return found


def test_both_files_have_all_pages_of_the_list_in_its_order(admin_client, sids, few_on_a_page) -> None:
    shown = [sid for page in walk(admin_client, LIST) for sid in page.sids]
    assert len(shown) == 4
    assert [row["id"] for row in as_csv(admin_client, "?p=2")] == shown
    assert [row["id"] for row in as_json(admin_client)["sessions"]] == shown
    assert [row["id"] for row in as_csv(admin_client, "?o=3")] == shown[::-1]
    # A file says what it is.
    response = admin_client.post(EXPORT, {"format": "csv"})
    assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert re.search(r"filename=\W?online-sessions-2[^/]*\.csv", response.headers["Content-Disposition"])
    # Excel reads UTF-8 only with this mark.
    assert response.getvalue().startswith(b"\xef\xbb\xbfid,")
    assert admin_client.post(EXPORT, {"format": "json"}).headers["Content-Type"].startswith("application/json")


def test_a_row_says_who_when_from_where_and_of_what_size(admin_client, users, new_session) -> None:
    session = from_place(new_session(str(users["alice"].pk), basket="secret-lamp"), "192.0.2.7")
    viewed.record(session, "lamp")
    found = online.get(session.sid)
    [row] = as_json(admin_client, "?q=alice")["sessions"]
    assert row == {
        "id": session.sid,
        "user_id": str(users["alice"].pk),
        "user": "alice",
        "created_at": found.created_at.isoformat(timespec="milliseconds"),
        "last_seen_at": found.last_seen_at.isoformat(timespec="milliseconds"),
        "expires_at": found.expires_at.isoformat(timespec="milliseconds"),
        "address": "192.0.2.7",
        "user_agent": FIREFOX,
        "device": "Firefox 140 on Linux",
        "place": "",
        "is_current": False,
        "size": found.size,
        "newest_item": "lamp",
        "device_bound": False,
    }
    assert datetime.fromisoformat(row["last_seen_at"]).utcoffset() is not None
    of_csv = as_csv(admin_client, "?q=alice")
    assert of_csv == [{name: "" if value is None else str(value) for name, value in row.items()}]
    assert [each["user"] for each in as_json(admin_client)["sessions"] if each["is_current"]] == ["admin"]
    # The command writes the same. There it is nobody's session that asks.
    for each in (row, *of_csv):
        del each["is_current"]
    printed = io.StringIO()
    call_command("online", "--csv", "--search", "alice", stdout=printed)
    of_command = csv.DictReader(io.StringIO(printed.getvalue(), newline=""))
    assert (of_command.fieldnames, list(of_command)) == (list(row), of_csv)


def test_no_file_has_a_session_key_or_data(admin_client, new_session) -> None:
    session = new_session("7", basket="secret-lamp")
    for file_format in ("csv", "json"):
        content = admin_client.post(EXPORT, {"format": file_format}).getvalue().decode()
        assert session.sid in content
        for secret in (session.session_key, admin_client.session.session_key, "secret-lamp", "_auth_user"):
            assert secret not in content, "a secret is in the file"


def test_search_and_filters_hold_for_the_file_and_its_buttons(admin_client, sids, new_session) -> None:
    guest = new_session(colour="blue")
    User.objects.filter(username="bob").update(is_staff=True)
    assert {row["user"] for row in as_csv(admin_client, "?q=aro")} == {"carol"}
    assert {row["user"] for row in as_csv(admin_client, "?staff=true")} == {"bob", "admin"}
    assert guest.sid in {row["id"] for row in as_csv(admin_client, "?guests=true")}
    assert as_csv(admin_client, "?q=nobody") == as_json(admin_client, "?q=nobody")["sessions"] == []
    for refused in ("?nothing=1", "?q=%00"):
        assert admin_client.post(EXPORT + refused, {"format": "json"}).status_code == 400
    text = admin_client.get(LIST + "?q=alice&guests=true&o=3&p=1").text
    assert f'action="{EXPORT}?q=alice&amp;guests=true&amp;o=3"' in text
    assert "export/" not in admin_client.get(LIST + "?q=nobody").text


def test_a_hostile_text_stays_in_its_cell_and_is_no_formula(admin_client, new_session) -> None:
    user = User.objects.create_user("=1+1")
    hostile = (
        '=HYPERLINK("http://a.example")',
        '"a", "b"\r\n"c",=1',
        "@SUM(A1)",
        "-1+1",
        "é\u2028\U0001f511",
        "x" * 500,
    )
    for user_agent in hostile:
        session = from_place(new_session(str(user.pk)), "192.0.2.7", user_agent)
        found = online.get(session.sid)
        [row] = as_csv(admin_client, f"?q={session.sid}")
        assert (row["id"], row["user"]) == (session.sid, "'=1+1")
        assert row["user_agent"].removeprefix("'") == found.user_agent.replace("\r\n", r"\x0d\x0a")
        assert not row["user_agent"].startswith(("=", "@", "-"))
        assert row["size"].isdigit()
        assert as_json(admin_client, f"?q={session.sid}")["sessions"][0]["user_agent"] == found.user_agent


def test_it_takes_a_permission_of_its_own(sids) -> None:
    exporter = staff(Client(), "export_onlinesession", name="exporter")
    assert exporter.post(EXPORT, {"format": "csv"}).status_code == 403
    viewer = staff(Client(), "view_onlinesession", "end_onlinesession", "view_session_data", name="viewer")
    assert viewer.post(EXPORT, {"format": "csv"}).status_code == 403
    assert "export/" not in viewer.get(LIST).text
    client = staff(Client(), "view_onlinesession", "export_onlinesession")
    assert f'action="{EXPORT}"' in client.get(LIST).text
    assert {row["id"] for row in as_csv(client)} > set(sids.values())


def test_it_is_asked_for_by_post_with_a_token(admin_client, admin_user, sids) -> None:
    assert admin_client.get(EXPORT, {"format": "csv"}).status_code == 405
    for fields in ({}, {"format": "xls"}):
        assert admin_client.post(EXPORT, fields).status_code == 400
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(admin_user)
    assert strict.post(EXPORT, {"format": "csv"}).status_code == 403
    assert not LogEntry.objects.exists()


def test_the_history_says_who_exported_which_even_if_it_is_broken_off(admin_client, admin_user, sids) -> None:
    admin_client.post(EXPORT + "?q=alice&guests=true", {"format": "csv"}).close()
    as_json(admin_client)
    texts = list(LogEntry.objects.order_by("pk").values_list("user", "object_id", "change_message"))
    assert texts == [
        (admin_user.pk, None, "Exported 1 session as CSV. Query: q=alice&guests=true"),
        (admin_user.pk, None, "Exported 4 sessions as JSON."),
    ]


def test_rules_of_a_subclass_hold(admin_client, users, sids, list_only, monkeypatch) -> None:
    list_only(lambda sessions: sessions.of_users([str(users["alice"].pk), str(users["bob"].pk)]))
    monkeypatch.setattr(OnlineSessionAdmin, "has_view_permission", lambda self, request, obj=None: str(obj) != "bob")
    assert [row["user"] for row in as_csv(admin_client)] == ["alice"]


def test_users_are_named_as_the_site_does(admin_client, settings, users, sids, new_session, monkeypatch) -> None:
    settings.LANGUAGE_CODE = "de"
    new_session(colour="blue")
    users["bob"].delete()
    monkeypatch.setattr(User, "__str__", lambda user: f"Customer {user.username}")
    rows = as_json(admin_client, "?guests=true")["sessions"]
    shown = [*(f"Customer {name}" for name in ("admin", "alice", "carol")), "None", "None"]
    assert sorted(str(row["user"]) for row in rows) == shown
    assert [row["user"] for row in as_csv(admin_client, "?guests=true")] == [row["user"] or "" for row in rows]


def test_a_search_that_looked_through_a_part_says_so(admin_client, users, new_session, list_only, monkeypatch) -> None:
    for user in users.values():
        from_place(new_session(str(user.pk)))
    list_only(lambda sessions: sessions.of_browser("Firefox").counting_once())
    assert as_json(admin_client)["is_all"] is True
    monkeypatch.setattr(searching, "SCAN_LIMIT", 2)
    response = admin_client.post(EXPORT, {"format": "csv"})
    assert len(rows_of(response)) == 2
    assert "-of-newest-2.csv" in response.headers["Content-Disposition"]
    whole = as_json(admin_client)
    assert (whole["count"], whole["is_all"], whole["looked_through"]) == (2, False, 2)


@pytest.fixture
def small_batches(monkeypatch) -> None:
    monkeypatch.setattr(export, "AT_ONCE", 3)


def sign_in_many(new_session: Callable[..., SessionStore], count: int) -> set[str]:
    users = User.objects.bulk_create(User(username=f"shopper{number}") for number in range(count))
    return {new_session(str(user.pk)).sid for user in users}


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("query", ["", "?o=-4", "?guests=true", "?q=shopper"])
def test_batches_have_each_session_once(partitions, admin_client, new_session, query) -> None:
    sids = sign_in_many(new_session, 10)
    found = [row["id"] for row in as_csv(admin_client, query)]
    assert len(found) == len(set(found))
    assert set(found) - {admin_client.session.sid} == sids


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("ends", [1, 3])
def test_sessions_that_end_or_begin_meanwhile_double_and_leave_out_none(admin_client, new_session, ends) -> None:
    sids = sign_in_many(new_session, 12)
    content = iter(admin_client.post(EXPORT, {"format": "csv"}))
    text = next(content) + next(content)
    # The admin's own session, and the newest of the others.
    online.end(*(each.sid for each in online.sessions(limit=ends)))
    newcomer = new_session("1").sid
    text += b"".join(content)
    found = [row["id"] for row in csv.DictReader(io.StringIO(text.decode("utf-8-sig"), newline=""))]
    assert len(found) == len(set(found))
    assert set(found) - {admin_client.session.sid} == sids
    assert newcomer not in found


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_an_outage_meanwhile_is_told(settings, admin_client, new_session, caplog, file_format) -> None:
    sign_in_many(new_session, 10)
    content, parts = iter(admin_client.post(EXPORT, {"format": file_format})), []
    parts += [next(content), next(content)]
    out_of_reach = {**settings.CACHES, **caches(f"redis://127.0.0.1:{free_port()}/0")}
    # The web server breaks the response off.
    with override_settings(CACHES=out_of_reach), pytest.raises(SessionStoreUnavailable):
        parts.extend(content)
    assert "An export was cut off by an error." in our_errors(caplog)
    text = b"".join(parts).decode("utf-8-sig")
    if file_format == "csv":
        assert text.splitlines()[-1].startswith("INCOMPLETE")
    else:
        with pytest.raises(json.JSONDecodeError):
            json.loads(text)


@pytest.mark.usefixtures("small_batches")
def test_an_asynchronous_server_sends_it_in_parts(admin_user, new_session) -> None:
    sign_in_many(new_session, 10)

    async def parts_of_file() -> list[bytes]:
        client = AsyncClient()
        await client.aforce_login(admin_user)
        response = await client.post(EXPORT, {"format": "json"})
        assert response.is_async
        return [part async for part in response]

    parts = async_to_sync(parts_of_file)()
    assert len(parts) > 4
    assert json.loads(b"".join(parts))["count"] == 11


# The oracle would look at each of them.
@pytest.mark.slow
@pytest.mark.usefixtures("left_alone")
def test_a_hundred_thousand_sessions_are_sent_in_little_memory(admin_client, redis) -> None:
    fill(redis, 100_000, viewed=0)
    content = iter(admin_client.post(EXPORT, {"format": "csv"}))
    for _ in range(3):
        next(content)
    before, size, most = memory(), 0, 0
    for part in content:
        size += len(part)
        most = max(most, memory())
    assert size > 10_000_000
    # All rows at once would take two hundred megabytes.
    assert most - before < 20_000_000


def memory() -> int:
    """How many bytes of memory this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.usefixtures("small_batches")
def test_whoever_goes_away_stops_it(admin_client, new_session, commands) -> None:
    sign_in_many(new_session, 10)
    response = admin_client.post(EXPORT, {"format": "csv"})
    content = iter(response)
    next(content)
    next(content)
    commands()
    response.close()
    assert list(content) == []
    assert "evalsha" not in commands()
