"""The user of the server who may do what docs/howto/acl.rst lists, and nothing else, and less: one line names that."""

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth import login
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import AsyncClient, Client, RequestFactory, override_settings
from django.utils import timezone
from django.utils.encoding import force_str

import django_redsess
from django_redsess import cleaning, online, viewed
from django_redsess.backend import SessionStore
from django_redsess.checks import server as server_checks
from django_redsess.contrib.moving.growing.stores import count_stored, site_stores
from django_redsess.exceptions import SignInRefused
from django_redsess.session.lock import SessionLock
from django_redsess.transport import packing
from testproject.clusters import Cluster
from testproject.nodes import Node
from testproject.shop.models import Product
from tests.helpers.admin_pages import LIST, answer, page_of
from tests.helpers.clusters import use_cluster
from tests.helpers.outages import caches, our_errors
from tests.helpers.permissions import DOCS, commands, listed
from tests.helpers.running import asleep, wait_until
from tests.helpers.site import MIDDLEWARE_WITH_CSRF, TEMPLATES
from tests.helpers.store import bucket_of_user, drive, faults, in_store, keyspace, pool, using
from tests.helpers.store import scripts as lua_scripts
from tests.helpers.visitors import Browser, assert_unavailable

pytestmark = [pytest.mark.django_db, pytest.mark.both_servers]

OF_CLIENTS = {"client", "client|setinfo", "client|maint_notifications", "hello"}
"""What redis-py says of itself when it connects: it goes on where that is refused."""


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [4], indirect=True)
def test_everything_works_with_what_is_listed_alone(own_server, settings, partitions: int, start, monkeypatch) -> None:
    """Do whatever can be done with sessions, on database 1 of a server, as the user "shop"."""
    rules, client = listed(), own_server.client
    client.execute_command("ACL", "SETUSER", "shop", *rules)
    client.acl_log_reset()
    client.config_resetstat()
    url = f"redis://shop:secret@127.0.0.1:{own_server.port}/1"
    settings.CACHES = {**settings.CACHES, **caches(url)}
    settings.REDSESS = {"VIEWED_VIEWS": {"shop:product": "slug"}, "VIEWED_LIMIT": 3, "VIEWED_GUESTS": True}
    monkeypatch.setenv("PARTITIONS", str(partitions))
    Product.objects.bulk_create([Product(slug=f"item-{number}", name="Item") for number in range(9)])
    User.objects.create_superuser("admin", password="secret")
    alice = User.objects.create_user("alice", password="secret")
    password = {"password": "secret"}
    for browser in (Browser(Client()), Browser(AsyncClient())):
        # A guest who views, then signs in, twice; the second ends the first.
        settings.REDSESS = {**settings.REDSESS, "MAX_SESSIONS_PER_USER": 1, "IDLE_TIMEOUT": 600, "SLIDING": True}
        for _ in range(2):
            browser.client.cookies.clear()
            for number in range(9):
                assert browser.get(f"/products/item-{number}/").status_code == 200
            assert browser.post("/login/", {"username": "alice", **password}).status_code == 302
            assert browser.post("/basket/item-1/add/", {"quantity": "1"}).status_code == 302
        assert online.count() == 1
        assert browser.get("/history/forget/").status_code == 405
        assert browser.post("/history/forget/").status_code == 302
        assert browser.get("/account/sessions/").status_code == 200
        assert browser.post("/account/sessions/end-others/").status_code == 302
        assert browser.post("/logout/").status_code == 302
    settings.REDSESS = {**settings.REDSESS, "MAX_SESSIONS_PER_USER": None}
    staff = Client()
    assert staff.post("/login/", {"username": "admin", **password}).status_code == 302
    others = [Browser(Client()) for _ in range(3)]
    for browser in others:
        browser.sign_in(alice)
    sid = others[0].sid
    for query in ("", "?q=alice", "?o=-2", "?active=1h", "?guests=true", f"?user={alice.pk}", f"?q={sid}"):
        assert staff.get(LIST + query).status_code == 200
    assert staff.get(page_of(sid), follow=True).status_code == 200
    assert staff.get("/admin/django_redsess/popularitem/").status_code == 200
    asked = staff.post(LIST, {"action": "end_selected", "_selected_action": [sid]})
    answer(staff, asked)
    assert online.count() == 3
    assert online.sessions(order="last_seen_at")
    assert online.sessions(guests=True, active_seconds=300)
    moving = SessionStore(others[1].cookie)
    viewed.record(moving, "item-1")
    moving.cycle_key()
    moving.save()
    # Two requests that one_at_a_time() lets pass: one has the lock, and the other one waits for it.
    turns = [SessionLock(moving, str(moving.sid), 30) for _ in range(2)]
    assert [drive(turn.taking(0.05)) for turn in turns] == ["locked", "late"]
    turns[0].give_back()
    assert viewed.popular()
    assert viewed.count("item-1")
    viewed.rank(1)
    viewed.total()
    viewed.reset("item-1")
    for line in ("online", "cleanviewed --max-items 1 --noinput", "clearsessions", "cleansessions --dry-run"):
        call_command(*line.split())
    assert faults() == []
    viewed.reset_all()
    block_repair_and_move(settings, User.objects.create_user("bob"), f"{url.removesuffix('/1')}/2")
    # A cleaner that sleeps, and is woken by who comes with an earlier deadline.
    cleaner = start("cleansessions", "--forever", url=url)
    wait_until(lambda: asleep(own_server.client) == 1)
    short = SessionStore()
    short["colour"] = "blue"
    short.set_expiry(1)
    short.save()
    wait_until(lambda: not SessionStore(short.session_key).exists(short.session_key))
    cleaner.stop()
    online.samples()
    call_command("cleansessions", "--max-sessions", "1")
    settings.REDSESS = {**settings.REDSESS, "MAX_SESSIONS": 2}
    for _ in range(8 * keyspace().count):
        SessionStore().create()
    call_command("endsessions", "--all", interactive=False)
    assert online.count() == 0
    own_server.client.config_set("maxmemory-policy", "allkeys-lru")
    assert [each.id for each in server_checks.check_server()] == ["django_redsess.W008"]
    assert {entry["object"] for entry in client.acl_log()} <= OF_CLIENTS
    # By scripts too, but for those of this test and of the connection itself.
    called = {name.removeprefix("cmdstat_").partition("|")[0] for name in client.info("commandstats")}
    assert commands(rules) == called - {"acl", "config", "auth", "hello", "client"}


def block_repair_and_move(settings, user: User, url: str) -> None:
    """Do what a site seldom does: block a user, list and restore blocks, and move sessions from another store."""
    online.block(user, until=timezone.now() + timedelta(hours=1), message="Call us.")
    assert [block.message for block in online.blocked()] == ["Call us."]
    request = RequestFactory().post("/")
    request.session = SessionStore()
    with pytest.raises(SignInRefused, match=r"Call us\."):
        login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    session = SessionStore()
    session["_auth_user_id"] = str(user.pk)
    with pytest.raises(SignInRefused, match=r"Call us\."):
        session.save()
    assert online.unblock(user)
    settings.CACHES = {**settings.CACHES, "before": caches(url)["sessions"]}
    moves = {"MOVE_FROM": {"SESSION_CACHE_ALIAS": "before"}}
    with override_settings(
        SESSION_ENGINE="django_redsess.contrib.moving.growing", REDSESS={**settings.REDSESS, **moves}
    ):
        with using(site_stores().other):
            old = SessionStore()
            old.update({"colour": "blue", "_auth_user_id": str(user.pk)})
            old.save()
        # The command asks so if it shows its progress on a terminal.
        assert drive(in_store(site_stores().other, count_stored)) == 1
        call_command("movesessions", verbosity=0)
        assert online.end_user(user) == 1


@pytest.mark.usefixtures("history")
def test_what_is_done_seldom_works_with_what_is_listed_alone(own_server, settings, log) -> None:
    own_server.client.execute_command("ACL", "SETUSER", "shop", *listed())
    url = f"redis://shop:secret@127.0.0.1:{own_server.port}"
    settings.CACHES = {**settings.CACHES, **caches(f"{url}/1")}
    alice = User.objects.create_user("alice")
    session = SessionStore()
    session["_auth_user_id"] = str(alice.pk)
    session.save()
    own_server.client.acl_log_reset()
    block_repair_and_move(settings, alice, f"{url}/2")
    # The server has forgotten all, and the copy in the database comes back.
    online.block(alice, until=timezone.now() + timedelta(hours=1))
    own_server.client.flushall()
    call_command("history", "--repair", verbosity=0)
    assert online.block_of(alice)
    assert our_errors(log) == []
    assert {entry["object"] for entry in own_server.client.acl_log()} <= OF_CLIENTS


def named_in(path: Path, known: set[str]) -> set[str]:
    """Return the commands of the server that the module at ``path`` names, each in quotes of its own."""
    return set(re.findall(r'"([A-Z_|]+)"', path.read_text(encoding="utf-8"))) & known


NOT_SENT = {"KEYS", "READONLY"}
"""Names of commands that mean something else in our modules: what a script declares, and how an error begins."""


def test_each_command_that_is_sent_is_in_one_list_and_that_is_what_is_listed(redis) -> None:
    """So that a command which is seldom sent is not forgotten, and none is listed that nobody sends."""
    known = {
        name for group in redis.execute_command("ACL", "CAT") for name in redis.execute_command("ACL", "CAT", group)
    }
    known = {force_str(name).upper() for name in known}
    folder = Path(django_redsess.__file__).parent
    # testing.py is for the server of tests.
    modules = [path for path in folder.rglob("*.py") if path != folder / "testing.py"]
    named = set().union(*(named_in(path, known) for path in modules if path != folder / "transport" / "sending.py"))
    wholes = {name.partition("|")[0] for name in packing.COMMANDS_OF_SOME}
    assert named - NOT_SENT - packing.COMMANDS <= {*wholes, *packing.COMMANDS_OF_SOME, "HELLO"}
    assert packing.COMMANDS - named == {"EVAL"} - named
    scripts = set(lua_scripts.commands_of_scripts())
    always = {name.lower() for name in packing.COMMANDS | scripts}
    assert commands(listed()) == always | {"blpop", "select", "info"}
    for name in packing.COMMANDS_OF_SOME:
        assert re.search(rf"(?i)\+{re.escape(name)}\b", DOCS.read_text(encoding="utf-8")), name


ALL = ("~*", "+@all")


@pytest.fixture
def site(settings) -> None:
    """The site of tests/helpers/site in place of the shop. Its sessions are in no store yet."""
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    settings.LOGIN_URL = "/sign-in/nobody/"
    settings.MIDDLEWARE = MIDDLEWARE_WITH_CSRF
    settings.TEMPLATES = TEMPLATES


@pytest.fixture
def may(cluster, site, settings) -> Iterator[Callable[..., None]]:
    """Use the cluster as the user "shop", and return a function that says what that user may do from now on."""

    def may(*rules: str, at: Node | None = None) -> None:
        for node in [at] if at else cluster.nodes:
            node.ask("ACL", "SETUSER", "shop", "reset", "on", ">secret", *rules)

    may(*ALL)
    use_cluster(settings, [url.replace("//", "//shop:secret@") for url in cluster.urls])
    yield may
    pool().disconnect()
    for node in cluster.nodes:
        node.ask("ACL", "DELUSER", "shop")


def home(cluster: Cluster, user: User) -> Node:
    return cluster.node_of(keyspace().of_bucket(bucket_of_user(str(user.pk))).tag)


def test_what_the_user_may_not_do_on_a_node_is_a_503_there_and_nowhere_else(cluster, may, browser, alice, log) -> None:
    node = home(cluster, alice)
    names = (f"user-{number}" for number in range(100))
    bob = next(user for name in names if home(cluster, user := User.objects.create_user(name)) is not node)
    other = Browser(Client())
    browser.sign_in(alice)
    other.sign_in(bob)
    may("~*", "+@all", "-hget", at=node)
    for _ in range(3):
        assert_unavailable(browser.get(f"{browser.views}/who/"))
        assert other.get("/who/").content == bob.username.encode()
    [line] = our_errors(log)
    assert f"127.0.0.1:{node.port}" in line
    assert "'hget' command" in line
    assert str(browser.cookie) not in log.text
    may(*ALL)
    assert browser.get("/who/").content == b"alice"


def test_a_user_who_may_not_ask_where_sessions_are_is_a_503_that_says_so(may, browser, log) -> None:
    may("~*", "+@all", "-cluster")
    browser.cookie = "k" * 32
    for _ in range(2):
        assert_unavailable(browser.get(f"{browser.views}/who/"))
    [line] = our_errors(log)
    assert "'cluster|slots' command" in line


def test_everything_works_for_a_user_who_may_do_what_is_listed_for_clusters(cluster, may, alice, log) -> None:
    may(*(set(listed()) - {"+blpop", "+select"}), "+asking", "+cluster|slots")
    pool().disconnect()
    for node in cluster.nodes:
        node.client.acl_log_reset()
    browsers = [Browser(Client()) for _ in range(3)]
    for browser in browsers:
        assert browser.get("/who/").status_code == 200
        browser.sign_in(alice, colour="blue")
        assert browser.post("/write/colour/red/").status_code == 200
    session = SessionStore(browsers[0].cookie)
    viewed.record(session, "lamp")
    assert viewed.popular() == [("lamp", 1)]
    assert len(online.sessions(order="last_seen_at")) == online.count() == 3
    cleaning.take_sample()
    online.samples()
    for option in ("--dry-run", "--check", "--repair"):
        call_command("cleansessions", option, verbosity=0)
    call_command("cleanviewed", max_items=1, verbosity=0)
    assert online.end_user(alice) == 3
    assert our_errors(log) == []
    refused = {entry["object"] for node in cluster.nodes for entry in node.client.acl_log()}
    assert {re.sub(r"\s.*", "", name) for name in refused} <= OF_CLIENTS
