"""What programs ask for: metrics, as a user who may see them, and whether there is a broker."""

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from attacked import attacked_broker
from embedded import embedded_broker
from prometheus_client.parser import text_string_to_metric_families as parse
from shared_worker import busy_worker
from starlette.applications import Starlette

import zaichik
from zaichik.apps.watch import polling
from zaichik.apps.web import scraping
from zaichik.apps.web.app import Options
from zaichik.apps.web.run import run
from zaichik.apps.web.scraping import Scraped, Scraping
from zaichik.client.client import Client
from zaichik.client.endpoint import Endpoint
from zaichik.client.errors import InvalidField
from zaichik.core.report.describe import MAX_PAGE
from zaichik.learn.server import free_port
from zaichik_protocol import Error, ErrorCode

GUARD = 60  # seconds after which a test that waits in vain fails; nothing ever waits for it to pass

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def answering(port_or_endpoint, **scraped):
    """Returns what asks the addresses, and returns status, content type and body."""
    here = port_or_endpoint
    endpoint = here if isinstance(here, Endpoint) else Endpoint("127.0.0.1", here)
    with anyio.fail_after(GUARD):
        async with anyio.create_task_group() as tasks:
            app = Starlette(routes=Scraping(Scraped(endpoint=endpoint, **scraped), tasks).routes)
            yield partial(get, app)
            tasks.cancel_scope.cancel()


async def get(app, address, accept=""):
    path, _, query = address.partition("?")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(b"accept", accept.encode())],
        "scheme": "http",
        "root_path": "",
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 9),
        "asgi": {"version": "3.0"},
    }
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], dict(sent[0]["headers"])[b"content-type"].decode(), body.decode()


async def values(ask, address="/metrics"):
    status, _, text = await ask(address)
    assert status == 200
    return {
        f"{sample.name}{{{','.join(sorted(sample.labels.values()))}}}": sample.value
        for family in parse(text)
        for sample in family.samples
    }


@contextmanager
def page(broker_port):
    """Returns the port of a real page's server."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    async def serve(*, task_status):
        stop = anyio.Event()
        options = Options(endpoint=Endpoint("127.0.0.1", broker_port), port=port)
        started = partial(task_status.started, stop)
        await run(listener, options, tls=None, allowed=[], stop=stop, ready=started)

    with start_blocking_portal() as portal:
        running, stop = portal.start_task(serve)
        try:
            yield port
        finally:
            portal.call(stop.set)
            running.result(GUARD)


@contextmanager
def prometheus(folder, target):
    """Returns the address of one that has nothing else to do, and takes nothing from elsewhere."""
    # Often, so that nothing waits long; and patiently, for a machine that is busy.
    jobs = [
        {
            "job_name": f"every {interval}",
            "scrape_interval": interval,
            "scrape_timeout": interval,
            "static_configs": [{"targets": [target]}],
        }
        for interval in ("100ms", "10s")
    ]
    config = {"scrape_configs": jobs}
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    here = f"127.0.0.1:{free_port()}"
    command = [
        "prometheus",
        f"--config.file={folder}/prometheus.yml",
        f"--web.listen-address={here}",
        "--scrape.discovery-reload-interval=50ms",
    ]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            [*command, f"--storage.tsdb.path={folder}/data"], stdout=log, stderr=log
        ) as process,
    ):
        try:
            yield f"http://{here}", process
        finally:
            process.kill()


def asked(address, query):
    """Returns the value that Prometheus knows; None if it knows none yet."""
    try:
        with urllib.request.urlopen(  # noqa: S310
            f"{address}/api/v1/query?query={urllib.parse.quote(query)}"
        ) as answer:
            result = json.load(answer)["data"]["result"]
    except urllib.error.HTTPError as error:  # it is still starting
        error.close()
        return None
    except OSError:  # nor does it listen yet
        return None
    return float(result[0]["value"][1]) if result else None


def eventually(process, ask):
    """Returns the answer of a program that is still at work."""
    until = time.monotonic() + GUARD
    while (answer := ask()) is None and time.monotonic() < until:
        with suppress(subprocess.TimeoutExpired):  # leaves the processor to it
            pytest.fail(f"it ended with {process.wait(0.02)}")
    return answer


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A Prometheus that scrapes a page; before it begins, it waits for five seconds, in which other
    tests run.
    """
    folder = tmp_path_factory.mktemp("prometheus")
    with (
        embedded_broker() as broker,
        page(broker.port) as port,
        prometheus(folder, f"127.0.0.1:{port}") as running,
    ):
        yield broker, *running


needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None,
    reason="there is no Prometheus (Debian: apt install prometheus)",
)


@pytest.mark.unmeasured
@needs_prometheus
def test_a_real_prometheus_starts(real):
    """Further down it is asked what it has read."""
    broker, address, process = real
    broker.publish('a"b', [(b"k", b"1"), (b"k", b"2")])
    assert eventually(process, lambda: asked(address, "vector(7)")) == 7


async def test_what_happened_to_a_topic_can_be_read():
    async with zaichik.running_broker() as server, zaichik.connect(port=server.port) as client:
        await client.create_topic("t", capacity=2, retention_ttl="forever")
        for key in ("a", "b", "c"):
            await client.publish("t", b"x", key=key)
        async with client.subscribe("t", name="billing") as reader, answering(server.port) as ask:
            await anext(reader)
            found = await values(ask)
    assert found["zaichik_topic_published_messages_total{t}"] == 3
    assert (
        found["zaichik_topic_evicted_messages_total{t}"],
        found["zaichik_topic_resident_messages{t}"],
    ) == (1, 2)
    assert found["zaichik_topic_conservation_error_messages{t}"] == 0
    assert (found["zaichik_session_lag_messages{billing,t}"], found["zaichik_sessions{}"]) == (2, 1)
    assert found["zaichik_topic_lag_messages{t}"] == 2


async def test_a_shared_name_is_one_named_subscription_whatever_its_workers():
    async with zaichik.running_broker() as server, zaichik.connect(port=server.port) as client:
        await client.create_topic("t", retention_ttl="forever")
        for _ in range(5):
            await client.publish("t", b"x")
        async with AsyncExitStack() as workers, answering(server.port) as ask:
            for _ in range(2):
                worker = busy_worker(server.port, "t", "jobs", "resizer")
                await anyio.to_thread.run_sync(workers.enter_context, worker)
            found = await values(ask)
    names = ("workers", "open_messages", "dead_messages")
    assert [found[f"zaichik_shared_name_{name}{{jobs,t}}"] for name in names] == [2, 2, 0]
    assert found["zaichik_shared_name_oldest_seconds{jobs,t}"] >= 0
    names = ("lag_messages", "in_flight_messages", "reader_present")
    assert [found[f"zaichik_session_{name}{{jobs,t}}"] for name in names] == [5, 2, 1]
    assert found["zaichik_sessions_unlisted{}"] == 0


async def test_what_a_table_holds_is_what_can_be_read():
    """TAB-2: holes are not messages, and the conservation laws hold."""
    async with zaichik.running_broker() as server, zaichik.connect(port=server.port) as client:
        await client.create_topic("t", table=True)
        for key in ("a", "b", "a", "a"):
            await client.publish("t", b"x", key=key)
        async with answering(server.port) as ask:
            found = await values(ask)
    assert found["zaichik_topic_resident_messages{t}"] == 2
    assert found["zaichik_topic_conservation_error_messages{t}"] == 0


async def test_the_format_is_the_one_that_was_asked_for():
    async with zaichik.running_broker() as server, answering(server.port) as ask:
        for accept, kind, end in (
            ("", "text/plain; version=0.0.4", "0.0\n"),
            (
                "application/openmetrics-text;version=1.0.0,text/plain;q=0.3",
                "application/openmetrics-text; version=1",
                "# EOF\n",
            ),
            (
                "application/openmetrics-text;version=one",
                "application/openmetrics-text; version=1",
                "# EOF\n",
            ),
        ):
            status, type_, body = await ask("/metrics", accept)
            assert status == 200
            assert type_.startswith(kind)
            assert body.endswith(end)


async def test_topics_can_be_asked_for_by_the_beginning_of_their_names():
    async with zaichik.running_broker() as server, zaichik.connect(port=server.port) as client:
        for name in ("a", "ab", "b"):
            await client.publish(name, b"x")
        async with answering(server.port, topics=1) as ask:
            found = [
                name for name in await values(ask, "/metrics?topic=b") if "topic_bytes" in name
            ]
            assert (found, (await values(ask))["zaichik_topics_unlisted{}"]) == (
                ["zaichik_topic_bytes{b}"],
                2,
            )


async def test_the_connection_is_kept_and_made_anew_after_a_restart():
    async with answering(port := free_port()) as ask:
        assert (await values(ask))["zaichik_up{}"] == 0
        for _ in range(2):
            async with zaichik.running_broker(port=port):
                for _ in range(3):
                    found = await values(ask)
                assert (
                    found["zaichik_connections{}"],
                    found["zaichik_disconnects_total{CLOSED}"],
                ) == (1, 0)
            assert (await values(ask))["zaichik_up{}"] == 0


async def test_a_broker_that_is_too_old_to_tell_the_counters_alone_tells_its_topics(monkeypatch):
    async def counters(client, prefix):
        raise InvalidField(Error(1, ErrorCode.INVALID_FIELD, 9, "kind", 0, "kind is 4"))

    monkeypatch.setattr(Client, "counters", counters)
    async with zaichik.running_broker() as server, zaichik.connect(port=server.port) as client:
        await client.publish("t", b"x")
        async with answering(server.port) as ask:
            found = await values(ask)
    assert (
        found["zaichik_topic_stored_messages_total{t}"],
        found["zaichik_topic_capacity_messages{t}"],
    ) == (1, 10_000)


async def test_however_many_subscriptions_there_are_few_are_asked_for(monkeypatch):
    monkeypatch.setattr(scraping, "MOST_PAGES", 1)
    async with (
        zaichik.running_broker() as server,
        zaichik.connect(port=server.port) as client,
        client.subscribe("b", name="last"),
        AsyncExitStack() as subscriptions,
        answering(server.port) as ask,
    ):
        for _ in range(MAX_PAGE - 1):
            await subscriptions.enter_async_context(client.subscribe("a"))
        assert (await values(ask))["zaichik_sessions_unlisted{}"] == 0
        await subscriptions.enter_async_context(client.subscribe("a"))
        assert (await values(ask))["zaichik_sessions_unlisted{}"] == 1


async def test_those_who_wait_in_line_share_an_answer():
    async with zaichik.running_broker() as server, answering(server.port) as ask:
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(values, ask)
        found = await values(ask)
    # The first, those behind it, and this one.
    assert found["zaichik_view_poll_seconds_count{broker}"] <= 3


async def test_after_an_answer_the_broker_is_left_alone(monkeypatch):
    monkeypatch.setattr(polling, "REST", 10**9)
    monkeypatch.setattr(polling, "MOST_REST_SECONDS", 10**9)
    async with zaichik.running_broker() as server, answering(server.port) as ask:
        await ask("/metrics")
        with anyio.move_on_after(0.05) as scope:
            await ask("/metrics")
        assert scope.cancelled_caught


# -- who may -------------------------------------------------------------------------------------


async def test_only_a_user_who_may_describe_the_broker_has_metrics(tmp_path):
    async with attacked_broker(tmp_path) as broker:
        for user, status, reason in (
            ("ana", 200, ""),
            ("boris", 403, "may describe $broker"),
            (None, 403, "log in"),
        ):
            async with answering(broker.endpoint(user)) as ask:
                answer = await ask("/metrics")
                assert answer[0] == status
                assert reason in answer[2]
                assert (await ask("/readyz"))[0] == 200, "the broker has answered"
        assert "zk_" not in answer[2]


async def test_a_refused_login_is_not_tried_again_at_each_scrape(tmp_path, monkeypatch):
    async with attacked_broker(tmp_path) as broker, answering(broker.endpoint(None)) as ask:
        for _ in range(3):
            assert (await ask("/metrics"))[0] == 403
        assert broker.gate.counters["login_failed"] == 1
        monkeypatch.setattr(scraping, "REFUSED_S", 0)
        for _ in range(2):
            assert (await ask("/readyz"))[0] == 200
        assert broker.gate.counters["login_failed"] == 3


async def test_where_strangers_could_read_them_there_are_none():
    async with answering(free_port(), why_not="not here") as ask:
        assert await ask("/metrics") == (403, "text/plain; charset=utf-8", "not here\n")


# -- is there anything ---------------------------------------------------------------------------


async def test_health_is_that_of_this_process_and_readiness_the_brokers():
    async with answering(port := free_port()) as ask:
        assert (await ask("/healthz"))[0] == 200
        status, _, text = await ask("/readyz")
        assert (status, "no broker answers" in text) == (503, True)
        async with zaichik.running_broker(port=port):
            assert (await ask("/readyz"))[0] == 200


async def test_a_frozen_broker_is_not_ready_and_down(monkeypatch):
    monkeypatch.setattr(scraping, "READY_S", 0.02)
    monkeypatch.setattr(scraping, "SCRAPE_S", 0.02)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with answering(silent.getsockname()[1]) as ask:
            assert await ask("/readyz") == (
                503,
                "text/plain; charset=utf-8",
                "the broker has not answered within 0.02 s\n",
            )
            assert (await values(ask))["zaichik_up{}"] == 0


# -- Prometheus itself ---------------------------------------------------------------------------


@pytest.mark.unmeasured
@needs_prometheus
def test_a_real_prometheus_has_read_what_was_published(real):
    _, address, process = real
    query = 'zaichik_topic_published_messages_total{topic="a\\"b"}'
    assert eventually(process, lambda: asked(address, query)) == 2
    # Not all scrapes are in time.
    assert eventually(process, lambda: asked(address, "up") or None) == 1
