"""Somebody else writes into Redis: what this site did not write for this session is not used, and nothing is run."""

import logging
import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from django_redsess import cleaning, online, viewed
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from testproject import settings as testproject_settings
from tests.helpers.admin_pages import LIST, Page, page_of
from tests.helpers.outages import lines_of
from tests.helpers.store import Client as SessionClient
from tests.helpers.store import Visit, keyspace, sid_of
from tests.helpers.visitors import Browser, assert_unavailable

pytestmark = [pytest.mark.django_db, pytest.mark.both_servers]

SECRET = "the data of alice"


class PickleSerializer:
    """What Django no longer has, and some sites still do."""

    dumps, loads = staticmethod(pickle.dumps), staticmethod(pickle.loads)


class MakesFile(NamedTuple):
    """Makes a file when it is unpickled."""

    path: Path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        return open, (str(self.path), "w")


@pytest.fixture
def log(caplog, site) -> pytest.LogCaptureFixture:
    caplog.clear()
    caplog.set_level(logging.INFO)
    return caplog


@pytest.fixture(autouse=True)
def spoilt(redis) -> Iterator[None]:
    """What an attacker leaves behind need not agree."""
    yield
    redis.flushall()


def login(sid: str) -> str:
    return keyspace().of_sid(sid).login


def assert_refused(browser: Browser, log: pytest.LogCaptureFixture) -> None:
    """The visitor is signed out, one line says why, and nothing secret is in it."""
    cookie, log_before = browser.cookie, len(log.records)
    response = browser.get(f"{browser.views}/user-id/")
    assert (response.status_code, response.content) == (200, b"nobody")
    lines = lines_of(log, "django.security.SuspiciousSession", logging.WARNING)
    assert len(lines) == 1
    assert len(log.records) == log_before + 1
    assert str(cookie) not in log.text
    assert SECRET not in log.text
    log.clear()
    browser.cookie = cookie


def test_a_record_is_refused_when_a_byte_that_is_sealed_is_changed_added_or_left_out(site, alice, redis, log) -> None:
    browser = Browser(Client(headers={"user-agent": "Mozilla/5.0 (X11)"}, REMOTE_ADDR="192.0.2.7"))
    browser.sign_in(alice, colour=SECRET)
    sid = str(browser.sid)
    genuine = redis.hget(login(sid), sid)
    log.clear()
    # Behind the format come the revision and two times, which a script must be able to write.
    for at in (0, 16, 17, 18, 26, len(genuine) // 2, len(genuine) - 1):
        before, byte, after = genuine[:at], genuine[at : at + 1], genuine[at + 1 :]
        for changed in (bytes([byte[0] ^ 1]) + after, after, b"\x00" + byte + after, b""):
            redis.hset(login(sid), sid, before + changed)
            assert_refused(browser, log)
    redis.hset(login(sid), sid, genuine)
    assert browser.get("/who/").content == b"alice"


def test_whatever_the_bytes_are_that_are_not_sealed_there_is_no_error(browser, alice, redis, settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "SLIDING": True, "IDLE_TIMEOUT": 60, "TOUCH_INTERVAL": 0}
    for byte in (b"\x00", b"\xff"):
        browser.sign_in(alice)
        sid = browser.sid
        genuine = redis.hget(login(sid), sid)
        redis.hset(login(sid), sid, genuine[:1] + byte * 15 + genuine[16:])
        # They are no reason to refuse it.
        assert browser.get(f"{browser.views}/user-id/").content == str(alice.pk).encode()
        # A deadline of long ago may end it.
        assert browser.post(f"{browser.views}/write/colour/red/").status_code in (200, 400)
        online.get(sid)


@pytest.mark.parametrize("serializer", ["django.core.signing.JSONSerializer", f"{__name__}.PickleSerializer"])
@pytest.mark.parametrize("header", [True, False], ids=["behind a genuine header", "alone"])
def test_pickles_are_refused_and_not_run(browser, alice, redis, log, settings, tmp_path, serializer, header) -> None:
    settings.SESSION_SERIALIZER = serializer
    browser.sign_in(alice, colour=SECRET)
    sid, made = browser.sid, tmp_path / "made"
    payload = pickle.dumps(MakesFile(made))
    genuine = redis.hget(login(sid), sid)
    # Format, revision, times, user, login time and seal are alice's, no client is known, and nothing is deflated.
    kept = genuine[:16] + b"\x00" + genuine[17 : 18 + genuine[17] + 18] + b"\x00" if header else b""
    redis.hset(login(sid), sid, kept + payload)
    assert_refused(browser, log)
    online.find([sid])
    online.sessions()
    assert not made.exists()
    pickle.loads(payload).close()
    assert made.exists()


@pytest.mark.parametrize("record", [b"", b"6" + b"\xff" * 100, b"\x80\x04." * 50])
def test_nothing_that_meets_a_foreign_record_fails(browser, alice, redis, record: bytes) -> None:
    browser.sign_in(alice)
    sid, cookie = browser.sid, browser.cookie
    redis.hset(login(sid), sid, record)
    online.sessions()
    assert online.count() == 1
    for path in ("/write/colour/red/", "/sign-in/alice/", "/cycle/", "/sign-out/"):
        browser.cookie = cookie
        assert browser.post(browser.views + path).status_code == 200
    browser.cookie = cookie
    assert browser.get("/items/plain/lamp").status_code == 200
    call_command("clearsessions")
    assert [ended.sid for ended in online.end(sid)] == [sid]


@pytest.mark.parametrize("path", ["/write/colour/red/", "/write-and-save/colour/red/", "/cycle/", "/sign-in/alice/"])
def test_a_record_changed_between_load_and_save_is_refused(browser, alice, redis, log, meanwhile, path: str) -> None:
    browser.sign_in(alice, colour=SECRET)
    sid = browser.sid
    log.clear()

    def tamper() -> None:
        genuine = redis.hget(login(sid), sid)
        redis.hset(login(sid), sid, genuine[:1] + b"revisi" + genuine[7:-3] + b'x"}')

    meanwhile(tamper)
    assert browser.post(browser.views + path).status_code == 400
    assert len(lines_of(log, "django.security.SuspiciousSession", logging.WARNING)) == 1
    assert lines_of(log, "django.request", logging.ERROR) == []
    assert SECRET not in log.text
    log.clear()
    assert_refused(browser, log)


@pytest.mark.parametrize("note", [b"", b"rotated", b"rotated \xff\xfe", b"rotated " + b"x" * 1000])
def test_a_forged_note_is_no_error(browser, alice, redis, note: bytes) -> None:
    browser.sign_in(alice)
    cookie, partition = browser.cookie, keyspace().of_sid(browser.sid)
    redis.set(partition.ended_of(browser.sid), note, ex=60)
    online.end(browser.sid)
    for path in ("/who/", "/write/colour/red/", "/cycle/"):
        browser.cookie = cookie
        assert browser.get(browser.views + path).status_code < 500
    browser.cookie = cookie
    assert browser.post(f"{browser.views}/sign-in/alice/").status_code == 200
    assert browser.get("/who/").content == b"alice"


@pytest.mark.parametrize("score", ["inf", "-inf", "0.5"])
def test_a_forged_time_is_no_error(browser, alice, new_session, redis, settings, score: str) -> None:
    settings.REDSESS = {**settings.REDSESS, "SLIDING": True, "IDLE_TIMEOUT": 60, "TOUCH_INTERVAL": 0}
    for key in ("expire", "recent", "guests", "online_user"):
        browser.sign_in(alice)
        redis.zadd(getattr(keyspace().of_sid(browser.sid), key), {browser.sid: score})
        online.sessions()
        assert browser.get(f"{browser.views}/who/").status_code == 200
        assert browser.post(f"{browser.views}/write/colour/red/").status_code == 200
        online.sessions()
    # Nor far down a list.
    redis.flushall()
    sids = {new_session(str(number)).sid for number in range(30)}
    redis.zadd(keyspace().of_sid(min(sids)).online_user, {min(sids): score})
    found = [session.sid for offset in range(0, 30, 10) for session in online.sessions(offset=offset, limit=10)]
    assert sorted(found) == sorted(sids)


STRANGE_SIDS = b"x" * 10 + b"\n" + b"y" * 9, b"\xff\xfe" * 10, b"", b"x" * 5000


def add(redis: Any, alice: User, sid: bytes, record: bytes) -> None:
    """Write a session of alice's as this app would, but for the sid."""
    partition, in_an_hour = keyspace().of_user(str(alice.pk)), 4_000_000_000_000
    redis.hset(partition.login, sid, record)
    redis.zadd(partition.expire, {sid: in_an_hour})
    for name in ("recent", "online_user"):
        redis.zadd(getattr(partition, name), {sid: 1_700_000_000_000})
    redis.zadd(partition.online_user_of(str(alice.pk)), {sid: 1_700_000_000_000})


@pytest.fixture
def administrator(site, alice, settings) -> Client:
    """An administrator of the shop, whose pages are those of the admin and of self-service."""
    settings.ROOT_URLCONF = "testproject.urls"
    settings.MIDDLEWARE = testproject_settings.MIDDLEWARE
    settings.TEMPLATES = testproject_settings.TEMPLATES
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


QUERIES = ["", "?o=4", "?o=-4", "?guests=true", "?active=1d", "?user=ALICE", "?user=ALICE&user=ROOT", "?q=a"]


@pytest.mark.usefixtures("partitions")
def test_what_is_no_sid_is_in_no_list_and_forges_no_line(administrator, alice, redis, log, told) -> None:
    visitor = Client()
    visitor.force_login(alice)
    sid = visitor.session.sid
    for strange in STRANGE_SIDS:
        add(redis, alice, strange, redis.hget(login(sid), sid))
    for query in QUERIES:
        query = query.replace("ALICE", str(alice.pk)).replace("ROOT", str(administrator.session["_auth_user_id"]))
        response = administrator.get(LIST + query)
        assert response.status_code == 200
        assert set(Page(response).sids) <= {sid, administrator.session.sid}, query
        assert sid in Page(response).sids
    for order in ("created_at", "-created_at", "last_seen_at", "-last_seen_at"):
        assert {found.sid for found in online.sessions(order=order)} == {sid, administrator.session.sid}
    assert [found.sid for found in online.of_user(alice)] == [sid]
    assert visitor.get("/account/sessions/").status_code == 200
    out = StringIO()
    call_command("online", stdout=out)
    assert "all is well" not in out.getvalue()
    lines = lines_of(log, "django.security.SuspiciousSession", logging.WARNING)
    assert lines
    assert all(line.isprintable() and len(line) < 200 for line in lines)
    online.end_all()
    assert set(told) == {sid, administrator.session.sid}


@pytest.mark.usefixtures("partitions")
def test_a_session_of_another_user_is_in_nobody_elses_list(administrator, alice, redis, log) -> None:
    visitor, other = Client(), Client(headers={"user-agent": "Browser of bob"})
    visitor.force_login(alice)
    bob = User.objects.create_user("bob")
    other.force_login(bob)
    own, bobs = visitor.session.sid, other.session.sid
    home = keyspace().of_user(str(alice.pk))
    redis.hset(home.login, bobs, redis.hget(login(bobs), bobs))
    redis.zadd(home.expire, {bobs: 4_000_000_000_000})
    redis.zadd(home.online_user_of(str(alice.pk)), {bobs: 1_900_000_000_000})
    assert [found.sid for found in online.of_user(alice)] == [own]
    assert "Browser of bob" not in visitor.get("/account/sessions/").text
    for query in ("", "&user=0", "&o=4", "&active=1d"):
        assert Page(administrator.get(f"{LIST}?user={alice.pk}{query}")).sids == [own]
    assert Page(administrator.get(f"{LIST}?user={bob.pk}")).sids == [bobs]
    assert page_of(bobs) not in administrator.get(page_of(own)).text
    assert lines_of(log, "django.security.SuspiciousSession", logging.WARNING)


def test_a_record_of_another_session_store_or_site_is_refused(browser, alice, redis, log, settings) -> None:
    browser.post("/write/colour/red/")
    guest = browser.cookie
    browser.client.cookies.clear()
    browser.sign_in(alice, colour=SECRET)
    sid, cookie, guests = browser.sid, browser.cookie, sid_of(str(guest))
    names = {name: name.replace(b"{redsess}", b"{other}") for name in redis.keys() if not name.endswith(b":meta")}
    for name, other in names.items():
        redis.restore(other, 0, redis.dump(name))
    redis.hset(login(guests), guests, redis.hget(login(sid), sid))
    log.clear()
    browser.cookie = guest
    assert_refused(browser, log)
    browser.cookie, key = cookie, settings.SECRET_KEY
    settings.SECRET_KEY = "of another site"
    assert_refused(browser, log)
    settings.SECRET_KEY, settings.REDSESS = key, {**settings.REDSESS, "PREFIX": "other"}
    assert_refused(browser, log)
    assert [found.user_id for found in online.find([sid])] == [""]


@pytest.mark.parametrize("user_id", [b"\n", b"\x00", b"\xff"])
def test_a_forged_user_is_not_written_into_the_history_as_it_is(administrator, alice, redis, user_id: bytes) -> None:
    visitor = Client()
    visitor.force_login(alice)
    sid = visitor.session.sid
    genuine = redis.hget(login(sid), sid)
    redis.hset(login(sid), sid, genuine[:17] + b"\x01" + user_id + genuine[18 + genuine[17] :])
    assert administrator.post(f"{LIST}end/", {"sids": sid}, follow=True).status_code == 200
    entry = LogEntry.objects.get()
    assert str(entry.object_id).isprintable()
    assert entry.object_repr.isprintable()
    assert online.get(sid) is None


@pytest.mark.parametrize("sample", [b"", b"\xff 1 2 3 4 5 6 7 8 9", b"9" * 5000 + b" 1 2 3"])
def test_a_forged_sample_is_left_out_of_the_picture(administrator, redis, sample: bytes) -> None:
    cleaning.take_sample()
    before = online.samples()
    redis.zadd(keyspace().partitions[0].samples, {sample: 4_000_000_000_000})
    assert online.samples()[: len(before)] == before
    assert administrator.get(LIST).status_code == 200


def test_a_key_of_another_type_is_an_outage_of_what_needs_it(alice, redis, log) -> None:
    browser = Browser(Client())
    browser.sign_in(alice)
    sid, user_id = browser.sid or "", str(alice.pk)
    partition, cookie = keyspace().of_sid(sid), browser.cookie
    online.block(User.objects.create_user("mallory"), until=datetime.now(UTC) + timedelta(hours=1), message="Call us.")
    signs_in, view = "/sign-in/alice/", "/items/records/lamp"
    paths = ("/who/", "/write/cart/shoe/", view, signs_in)
    assert browser.get(view).status_code == 200
    of_session = [partition.viewed_by(sid), partition.online_user_of(user_id), partition.ended_of(sid)]
    names = {*partition.names, *of_session, partition.block_of(user_id)}
    stored = {name: redis.dump(name) for name in names}
    for name in sorted(names):
        redis.delete(name)
        redis.xadd(name, {"not": "ours"})
        found = {}
        for path in paths:
            browser.cookie = cookie
            found[path] = browser.get(path)
            assert found[path].status_code in (200, 302, 503), (name, path)
            if found[path].status_code == 503:
                assert_unavailable(found[path])
        if name == partition.blocked:
            assert [path for path, answer in found.items() if answer.status_code == 503] == [signs_in]
            assert any("WRONGTYPE" in line for line in lines_of(log, "django_redsess", logging.ERROR))
        redis.flushall()
        for each, packed in stored.items():
            if packed is not None:
                redis.restore(each, 0, packed)
    browser.cookie = cookie
    assert browser.get("/who/").text == "alice"


@pytest.mark.parametrize("name", ["totals", "expire", "recent", "guests", "online_user", "online_user_of"])
def test_a_session_that_a_key_of_another_type_keeps_from_beginning_is_not_left_half(redis, name: str) -> None:
    partition = keyspace().partitions[0]
    key = partition.online_user_of("7") if name == "online_user_of" else getattr(partition, name)
    online.count()
    redis.set(key, "not ours")
    begun = 0
    for user in ("", "7", ""):
        session = SessionStore()
        session.visit = Visit(lambda: SessionClient("192.0.2.1", "Mozilla"))
        session.update({"_auth_user_id": user} if user else {"colour": "blue"})
        with suppress(SessionStoreUnavailable):
            session.save()
            begun += 1
    assert redis.hlen(partition.login) == begun
    # What only counts keeps nobody out.
    assert begun == (3 if name == "totals" else begun)
    redis.flushall()


@pytest.mark.parametrize("field", ["created", "views", "views_since", "logout"])
def test_a_count_that_is_no_number_fails_no_page(browser, alice, redis, field: str) -> None:
    redis.hset(keyspace().partitions[0].totals, field, "no number")
    browser.sign_in(alice)
    for path in (f"{browser.views}/write/cart/shoe/", f"/items/{'a' if browser.views else ''}records/lamp"):
        assert browser.get(path).status_code == 200
    assert online.totals().signed_in == 1
    assert viewed.total().items >= 1
    assert browser.get(f"{browser.views}/who/").text == "alice"
    redis.flushall()


def test_a_note_of_another_type_is_no_note(browser, alice, redis) -> None:
    browser.sign_in(alice)
    sid = browser.sid or ""
    online.end(sid)
    redis.delete(keyspace().of_sid(sid).ended_of(sid))
    redis.xadd(keyspace().of_sid(sid).ended_of(sid), {"not": "ours"})
    for path in ("/who/", "/write/cart/shoe/"):
        assert browser.get(f"{browser.views}{path}").status_code == 200
    redis.flushall()
