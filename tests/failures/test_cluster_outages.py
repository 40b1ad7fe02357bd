"""Outages of a cluster: 503 in time and never 500, one line that names the node, and all other nodes go on."""

import asyncio
import logging
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest
from django.core.handlers.asgi import ASGIHandler
from django.test import AsyncClient, AsyncRequestFactory, Client

from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.transport.cluster_map import FRESH_SECONDS
from testproject.clusters import Cluster
from testproject.nodes import Node
from testproject.servers import free_port
from tests.helpers.clusters import begin_anew, deaf, full_backlog, session_on_each, use_cluster
from tests.helpers.outages import BUDGET, TIMEOUT, lines_of, our_errors
from tests.helpers.running import wait_until
from tests.helpers.serving import Answer, assert_own, serving
from tests.helpers.site import MIDDLEWARE
from tests.helpers.store import keyspace
from tests.helpers.visitors import Browser, assert_unavailable

pytestmark = pytest.mark.usefixtures("log")


@pytest.fixture(autouse=True)
def cluster_site(settings, store_settings) -> None:
    """The site of tests/helpers/site, for visitors who are in no table."""
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    settings.MIDDLEWARE = MIDDLEWARE


@pytest.fixture(params=[Client, AsyncClient], ids=["wsgi", "asgi"])
def visitor(request) -> Browser:
    return Browser(request.param())


def news(log: pytest.LogCaptureFixture) -> list[str]:
    return lines_of(log, "django_redsess", logging.INFO)


def named(node: Node) -> str:
    return f"of node 127.0.0.1:{node.port} "


@contextmanager
def all_frozen(cluster: Cluster) -> Iterator[None]:
    """Stop the processes of all nodes."""
    for node in cluster.nodes:
        cluster.freeze(node)
    try:
        yield
    finally:
        for node in cluster.nodes:
            cluster.thaw(node)


def outage_of(visitor: Browser, log: pytest.LogCaptureFixture) -> str:
    """Have a visitor ask who has a session; return the one line that says why it can't be reached."""
    visitor.cookie = "k" * 32
    for _ in range(3):
        assert_unavailable(visitor.get(f"{visitor.views}/read/colour/"))
        assert visitor.seconds < BUDGET
    [line] = our_errors(log)
    return line


@contextmanager
def refusing() -> Iterator[str]:
    yield f"redis://127.0.0.1:{free_port()}"


@pytest.mark.parametrize("start", [refusing, deaf, full_backlog])
def test_no_start_node_answers(visitor, settings, log, start) -> None:
    with ExitStack() as ended:
        urls = [ended.enter_context(start()) for _ in range(3)]
        use_cluster(settings, urls, timeout=TIMEOUT)
        line = outage_of(visitor, log)
        assert line.startswith("Sessions can't be reached: ConnectionError: No node of the cluster")


@pytest.mark.both_servers
def test_a_server_that_is_no_cluster_and_another_database_are_named(visitor, server, cluster, settings, log) -> None:
    another = r"SELECT is not allowed in cluster mode|DB index is out of range"
    places = {server.url: "cluster support disabled", cluster.urls[0].replace("/0", "/1"): another}
    for url, words in places.items():
        log.clear()
        use_cluster(settings, url)
        assert re.search(words, outage_of(visitor, log))


@pytest.mark.both_servers
def test_a_cluster_that_says_it_is_down(server, settings, log) -> None:
    with closing(Cluster(server.binary, "--cluster-require-full-coverage", "yes", primaries=1, replicas=0)) as cluster:
        [node] = cluster.nodes
        node.cluster("DELSLOTS", 0)
        wait_until(lambda: b"cluster_state:fail" in node.cluster("INFO"))
        use_cluster(settings, node.url)
        visitors = Browser(Client()), Browser(AsyncClient())
        for visitor in visitors:
            line = outage_of(visitor, log)
            assert line.startswith(f"Sessions {named(node)}can't be reached: ClusterDownError")
        node.cluster("ADDSLOTS", 0)
        cluster.wait_ok()
        for visitor in visitors:
            assert visitor.get(f"{visitor.views}/read/colour/").status_code == 200
        assert len(our_errors(log)) == len(news(log)) == 1


@pytest.mark.both_servers
def test_slots_that_nobody_serves(server, settings, log, new_session) -> None:
    with closing(Cluster(server.binary, primaries=1, replicas=0)) as cluster:
        [node] = cluster.nodes
        use_cluster(settings, node.url)
        kept = new_session(colour="blue")
        lost = next(each for each in keyspace().partitions if each != keyspace().of_sid(kept.sid))
        key = next(
            key for key in iter(lambda: str(new_session().session_key), "") if keyspace().of_sid(key[:2]) == lost
        )
        slot = node.cluster("KEYSLOT", lost.tag)
        node.cluster("DELSLOTS", slot)
        begin_anew()
        browser = Browser(Client())
        browser.cookie = key
        for _ in range(2):
            # Each is to ask for the map anew.
            time.sleep(2 * FRESH_SECONDS)
            assert_unavailable(browser.get("/read/colour/"))
            assert SessionStore(kept.session_key)["colour"] == "blue"
        assert len(our_errors(log)) == 1
        assert news(log) == []
        node.cluster("ADDSLOTS", slot)
        wait_until(lambda: browser.get("/read/colour/").status_code == 200)
        assert len(our_errors(log)) == len(news(log)) == 1


def ask_all(keys: list[str], *, tasks: bool) -> list[tuple[int, float]]:
    """Ask for all these sessions at once; return the status of each answer, and the seconds that it took."""

    site_of_tasks = ASGIHandler()

    async def ask_by_task(key: str) -> tuple[int, float]:
        # Not by the test's client: with many at once, it works longer than they wait.
        requests = AsyncRequestFactory()
        requests.cookies["sessionid"] = key
        begun = time.monotonic()
        response = await site_of_tasks.get_response_async(requests.get("/async/read/colour/"))
        return response.status_code, time.monotonic() - begun

    async def ask_by_tasks() -> list[tuple[int, float]]:
        return await asyncio.gather(*map(ask_by_task, keys))

    if tasks:
        return asyncio.run(ask_by_tasks())
    with serving() as site:

        def ask(key: str) -> tuple[int, float]:
            begun = time.monotonic()
            return site.ask("/read/colour/", key).status, time.monotonic() - begun

        with ThreadPoolExecutor(len(keys)) as threads:
            return list(threads.map(ask, keys))


@pytest.mark.slow
@pytest.mark.parametrize(("tasks", "fresh"), [(False, False), (False, True), (True, True)])
def test_every_node_stalls(own_cluster, settings, new_session, log, tasks: bool, fresh: bool) -> None:
    use_cluster(settings, own_cluster.urls, timeout=TIMEOUT)
    keys = list(session_on_each(own_cluster, new_session, colour="blue").values()) * 17
    ask_all(keys[:3], tasks=tasks)
    if fresh:
        begin_anew()
    log.clear()
    with all_frozen(own_cluster):
        for _ in range(2):
            answers = ask_all(keys[: 50 if tasks else 20], tasks=tasks)
            assert {status for status, _ in answers} == {503}
            assert max(seconds for _, seconds in answers) < BUDGET
    assert 1 <= len(our_errors(log)) <= 3
    own_cluster.wait_ok()
    wait_until(lambda: {status for status, _ in ask_all(keys[:3], tasks=tasks)} == {200})


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [False, True], ids=["threads", "tasks"])
def test_one_node_stalls_and_the_others_go_on(server, settings, new_session, log, tasks: bool) -> None:
    """No replica takes over: the outage lasts."""
    with closing(Cluster(server.binary, replicas=0)) as cluster:
        use_cluster(settings, cluster.urls, timeout=TIMEOUT)
        sessions = session_on_each(cluster, new_session, colour="blue")
        (node, lost), *others = sessions.items()
        log.clear()
        cluster.freeze(node)
        for _ in range(2):
            answers = ask_all([lost] * 10, tasks=tasks)
            assert {status for status, _ in answers} == {503}
            answers = ask_all([key for _, key in others] * 5, tasks=tasks)
            assert {status for status, _ in answers} == {200}
        # Both at once.
        answers = ask_all([lost] * 10 + [key for _, key in others] * 5, tasks=tasks)
        assert sorted(status for status, _ in answers) == [200] * 10 + [503] * 10
        [line] = our_errors(log)
        assert line.startswith(f"Sessions {named(node)}can't be reached: ")
        assert news(log) == []
        cluster.thaw(node)
        cluster.wait_ok()
        wait_until(lambda: ask_all([lost], tasks=tasks)[0][0] == 200)
        assert len(our_errors(log)) == 1
        [line] = news(log)
        assert line.startswith(f"Sessions {named(node)}are reached again, after ")


def ask_again(visitor: Browser) -> int:
    status = visitor.get(f"{visitor.views}/read/colour/").status_code
    assert visitor.seconds < BUDGET
    return status


@pytest.mark.slow
@pytest.mark.both_servers
@pytest.mark.parametrize(("client", "start_nodes"), [(Client, 6), (AsyncClient, 1)], ids=["wsgi", "asgi, one node"])
def test_a_replica_takes_over_and_a_line_says_so(own_cluster, settings, new_session, log, client, start_nodes) -> None:
    use_cluster(settings, own_cluster.urls[-start_nodes:], timeout=TIMEOUT)
    node, key = next(iter(session_on_each(own_cluster, new_session, colour="blue").items()))
    replica = own_cluster.replica_of(node)
    wait_until(lambda: replica.client.dbsize() == node.client.dbsize())
    visitor = Browser(client())
    visitor.cookie = key
    own_cluster.kill(node)
    statuses = []
    wait_until(lambda: statuses.append(ask_again(visitor)) or statuses[-1] == 200)
    assert statuses[0] == 503
    assert set(statuses) == {503, 200}
    assert visitor.get(f"{visitor.views}/read/colour/").content == b"blue"
    [line] = our_errors(log)
    assert line.startswith(f"Sessions {named(node)}can't be reached: ")
    [line] = news(log)
    assert line.startswith(f"Sessions {named(node)}are served by another node, after ")
    # The way back is news of the other node, if any.
    own_cluster.wait_ok()
    own_cluster.restart(node)
    own_cluster.promote(node)
    assert ask_again(visitor) == 200
    assert not any(named(node) in line for line in (*our_errors(log)[1:], *news(log)[1:]))


@pytest.mark.slow
@pytest.mark.both_servers
def test_a_slot_that_moves_is_one_line(own_cluster, settings, new_session, log) -> None:
    """Its node goes on with other partitions, so that it is not out of reach and reached again by turns."""
    use_cluster(settings, own_cluster.urls)
    partition = keyspace().of_sid(new_session("7").sid)
    node = own_cluster.node_of(partition.tag)
    target = next(each for each in own_cluster.primaries if each is not node)
    others = [new_session(colour="blue") for _ in range(30)]
    log.clear()
    moves = own_cluster.move_slot_classic(node.cluster("KEYSLOT", partition.tag), target)
    next(moves), next(moves)
    for _ in range(3):
        with pytest.raises(SessionStoreUnavailable):
            new_session("7")
        for other in others:
            if keyspace().of_sid(other.sid) != partition:
                other.save()
    assert our_errors(log) == news(log) == []
    [line] = lines_of(log, "django_redsess", logging.WARNING)
    assert "wait while the cluster moves it" in line
    list(moves)
    new_session("7").delete()
    assert our_errors(log) == news(log) == []


@pytest.mark.slow
@pytest.mark.parametrize(("tasks", "resp"), [(False, 2), (True, 3)], ids=["threads", "tasks"])
def test_a_stall_hands_nobody_the_reply_of_another(own_cluster, settings, new_session, tasks: bool, resp: int) -> None:
    use_cluster(settings, own_cluster.urls, timeout=TIMEOUT, CONNECTION_POOL_KWARGS={"protocol": resp})
    visitors = {name: str(new_session(name=name).session_key) for name in map(str, range(8))}
    answers: list[tuple[str, Answer]] = []
    over = threading.Event()

    def visit_by_thread(site: Any, name: str, cookie: str) -> None:
        while not over.is_set():
            answers.append((name, site.ask("/read/name/", cookie)))
            answers.append((name, site.ask(f"/write/seen/{name}/", cookie)))

    async def visit(name: str, cookie: str) -> None:
        client = AsyncClient()
        while not over.is_set():
            for path in ("/async/read/name/", f"/async/write/seen/{name}/"):
                client.cookies["sessionid"] = cookie
                response = await client.get(path)
                morsel = response.cookies.get("sessionid")
                answer = Answer(response.status_code, response.content.decode(), morsel.value if morsel else None)
                answers.append((name, answer))

    async def visit_all() -> None:
        await asyncio.gather(*(visit(*visitor) for visitor in visitors.items()))

    with serving() as site:
        if tasks:
            threads = [threading.Thread(target=lambda: asyncio.run(visit_all()))]
        else:
            threads = [threading.Thread(target=visit_by_thread, args=(site, *each)) for each in visitors.items()]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        for _ in range(2):
            # Longer than a command and its repetition wait, and shorter than until a replica takes over.
            with all_frozen(own_cluster):
                time.sleep(1.3)
            time.sleep(0.3)
        wait_until(lambda: {answer.status for _, answer in answers[-8:]} == {200})
        over.set()
        for thread in threads:
            thread.join()
    assert_own(answers, visitors)


@pytest.mark.slow
def test_greenlets_whose_time_is_up(cluster, settings, greenlets) -> None:
    use_cluster(settings, cluster.urls)
    interrupted, own = greenlets(",".join(cluster.urls))
    assert (interrupted > 10, own > 100) == (True, True)
