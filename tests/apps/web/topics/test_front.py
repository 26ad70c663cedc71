"""Who may ask for what, at which address, and how they are told that they may not."""

from contextlib import AsyncExitStack, asynccontextmanager, suppress

import anyio
import anyio.lowlevel
import pytest
from browsing import OURS
from programs import LINES, Program, broker_and_program, programs

import zaichik
from zaichik.apps.web import app, hub
from zaichik.apps.web.topics import front, link, reading
from zaichik.base.clock import ManualClock
from zaichik.client.endpoint import Credentials, Endpoint
from zaichik.learn.server import free_port

pytestmark = pytest.mark.anyio

ANA, BOB = (f"zk_{letter * 43}" for letter in "ab")
RULES = """
user ana
allow all a*
allow describe $broker
user bob
allow publish b*
"""
BILL = "/names/bill/topics/orders"


@asynccontextmanager
async def broker(port=0, users=None, rules=RULES):
    users = users or {"ana": ANA, "bob": BOB}
    async with (
        zaichik.running_broker(port=port, users=users, rules=rules) as server,
        zaichik.connect(
            Endpoint("127.0.0.1", server.port, credentials=Credentials(secret=users["ana"]))
        ) as ana,
    ):
        yield server, ana


@asynccontextmanager
async def gated(rules=RULES, **options):
    async with (
        broker(rules=rules) as (server, ana),
        programs(server.port, **options) as (program, web),
    ):
        yield server, ana, program, web


def bearing(token):
    return {"authorization": f"Bearer {token}"}


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE"])
@pytest.mark.parametrize(("address", "allowed"), [("/topics/orders", "GET, POST"), (BILL, "POST")])
async def test_other_methods_are_told_which_there_are(method, address, allowed):
    async with broker_and_program() as (client, program, _):
        answer = await program.get(address, method)
        assert (answer.status, answer.headers["allow"]) == (405, allowed)
        assert answer.json["error"] == "METHOD_NOT_ALLOWED"
        assert (await client.topic("orders"))["next_offset"] == 0


async def test_the_position_of_a_name_cannot_be_read():
    async with broker_and_program() as (_, program, _):
        answer = await program.get(BILL)
        assert (answer.status, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    "address", ["/topics/", "/topics/a/b", "/names/bill", "/names/bill/topics/", "/topics/a%0Ab/c"]
)
async def test_an_address_that_there_is_not_is_an_error_in_json(address):
    async with broker_and_program() as (_, program, _):
        answer = await program.get(address)
        assert (answer.status, answer.json["error"]) == (404, "NOT_FOUND")


async def test_a_slash_in_a_topics_name_is_encoded():
    async with broker_and_program() as (client, program, _):
        assert (await program.post("/topics/a%2Fnames%2Fb", b"x")).status == 200
        assert (await client.topic("a/names/b"))["next_offset"] == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": OURS}, 200),
        ({"origin": OURS, "sec_fetch_site": "same-origin"}, 200),
        ({"origin": "null"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://localhost:3000"}, 403),
        ({"origin": "http://evil.example", "content_type": "text/plain"}, 403),
        ({"origin": OURS, "sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-origin"}, 403),
        ({"sec_fetch_site": "none"}, 403),
        ({"host": "evil.example:8080"}, 421),
        ({"host": "evil.example:8080", "origin": "http://evil.example:8080"}, 421),
    ],
)
@pytest.mark.parametrize(("address", "body"), [("/topics/orders", b"x"), (BILL, b'{"next":0}')])
async def test_programs_and_the_page_itself_may_post_and_other_sites_may_not(
    address, body, headers, status
):
    async with broker_and_program() as (client, program, _):
        answer = await program.post(address, body, **headers)
        assert answer.status == status
        if status != 200:
            assert answer.json["error"] in {"FOREIGN_ORIGIN", "MISDIRECTED_REQUEST"}
            assert (await client.topic("orders"))["next_offset"] == 0
            assert await client.subscriptions("orders") == []


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}, 403),
        ({"host": "evil.example:8080"}, 421),
    ],
)
async def test_other_sites_read_nothing(headers, status):
    async with broker_and_program() as (client, program, _):
        answer = await program.get("/topics/orders?start=earliest", **headers)
        assert answer.status == status
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert await client.subscriptions("orders") == []


async def test_the_page_itself_reads_with_its_cookie():
    async with gated() as (_, ana, program, _):
        await ana.create_topic("apples", retention_ttl="forever")
        await ana.publish("apples", b"x")
        browser = Program(program._app)
        login = {"origin": OURS, "x-zaichik": "1", "content-type": "application/json"}
        await browser.post("/login", f'{{"secret":"{ANA}"}}', **login)
        address = "/topics/apples?start=earliest"
        async with browser.reading(address, sec_fetch_site="same-origin") as stream:
            assert await stream.payloads(1) == ["x"]


async def test_a_program_logs_in_with_its_token():
    async with gated() as (_, ana, program, _):
        await ana.create_topic("apples", retention_ttl="forever")
        posted = await program.post("/topics/apples", b"x", **bearing(ANA))
        assert posted.status == 200
        async with program.reading("/topics/apples?start=0", **bearing(ANA)) as stream:
            assert await stream.payloads(1) == ["x"]
            rows = await ana.connections()
            names = [row["client"] for row in rows if row["user"] == "ana"]
            assert names.count("zaichik web topics") == 1


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ({}, "LOGIN_REQUIRED"),
        (bearing("zk_" + "c" * 43), "AUTH_FAILED"),
        ({"authorization": f"Basic {ANA}"}, "LOGIN_REQUIRED"),
        ({"authorization": "Bearer "}, "LOGIN_REQUIRED"),
        ({"authorization": ANA}, "LOGIN_REQUIRED"),
    ],
)
async def test_without_a_login_nothing_is_answered(headers, error):
    async with gated() as (_, ana, program, _):
        await ana.create_topic("apples")
        for answer in (
            await program.post("/topics/apples", b"x", **headers),
            await program.get("/topics/apples", **headers),
            await program.post("/names/n/topics/apples", b'{"next":0}', **headers),
        ):
            assert (answer.status, answer.json["error"]) == (401, error)
            assert answer.headers["www-authenticate"] == "Bearer"
        assert (await ana.topic("apples"))["next_offset"] == 0


async def test_every_program_may_do_what_its_user_may():
    async with gated() as (_, ana, program, _):
        await ana.create_topic("apples")
        forbidden = (
            await program.post("/topics/apples", b"x", **bearing(BOB)),
            await program.get("/topics/apples", **bearing(BOB)),
            await program.post("/names/n/topics/apples", b'{"next":0}', **bearing(BOB)),
            await program.post("/topics/bills", b"x", **bearing(ANA)),
        )
        for answer in forbidden:
            assert (answer.status, answer.json["error"]) == (403, "FORBIDDEN")


async def test_idempotency_keys_of_users_are_their_own():
    async with broker() as (server, ana):
        await ana.create_topic("apples", retention_ttl="forever")
        async with programs(server.port) as (program, _):
            for token in (ANA, ANA):
                answer = await program.post(
                    "/topics/apples", b"x", idempotency_key="1", **bearing(token)
                )
                assert answer.json["offset"] == 0
            answer = await program.post("/topics/apples", b"x", idempotency_key="1", **bearing(BOB))
            assert answer.status == 403


async def test_keys_belong_to_a_user_also_before_the_page_is_connected(monkeypatch):
    """A retry has another answer, and is stored twice, if it counts as somebody else's."""

    async def unconnected(_):
        raise zaichik.ConnectFailed("no more connections")

    async with gated() as (_, ana, program, web):
        await ana.create_topic("apples")
        await web.sessions.anybody()
        with monkeypatch.context() as patched:
            patched.setattr(hub.Hub, "_serve", unconnected)
            answer = await program.post("/topics/apples", b"x", **bearing(ANA))
            assert answer.status == 200
            assert (await web.sessions.bearing(ANA)).hub.user == "ana"


async def test_one_user_leaves_places_for_streams_of_others(monkeypatch):
    monkeypatch.setattr(front, "MOST_STREAMS", 4)
    rules = RULES + "allow all b*\n"
    async with gated(rules) as (_, ana, program, _), AsyncExitStack() as stack:
        await ana.create_topic("apples")
        for token, topic, most in ((ANA, "apples", 2), (BOB, "bills", 1)):
            for _ in range(most):
                stream = program.reading(f"/topics/{topic}", **bearing(token))
                await (await stack.enter_async_context(stream)).began()
            answer = await program.get(f"/topics/{topic}", **bearing(token))
            assert (answer.status, answer.json["error"]) == (503, "TOO_MANY_STREAMS")


async def test_many_requests_at_once_log_in_once():
    async with gated() as (server, ana, program, _):
        await ana.create_topic("apples")
        statuses = []

        async def post():
            statuses.append((await program.post("/topics/apples", b"x", **bearing(ANA))).status)

        before = server.gate.counters["logged_in"]
        async with anyio.create_task_group() as tasks:
            for _ in range(30):
                tasks.start_soon(post)
        assert statuses == [200] * 30
        # One to try, two of the hub, and one that publishes.
        assert server.gate.counters["logged_in"] - before <= 4


async def test_guesses_at_tokens_are_limited():
    clock = ManualClock(1_000_000_000)
    async with gated(clock=clock) as (server, _, program, _):
        answers = [
            await program.post("/topics/apples", b"x", **bearing(f"zk_{number:043}"))
            for number in range(15)
        ]
        assert [answer.status for answer in answers] == [401] * 10 + [429] * 5
        assert server.gate.counters["login_failed"] <= 11


async def test_where_nobody_logs_in_a_token_is_as_good_as_none():
    async with broker_and_program() as (client, program, web):
        for token in (ANA, BOB):
            assert (await program.post("/topics/orders", b"x", **bearing(token))).status == 200
        assert len(web.sessions._sessions) == 0
        names = [row["client"] for row in await client.connections()]
        assert names.count("zaichik web topics") == 1


async def test_where_others_can_reach_the_page_programs_log_in():
    async with (
        zaichik.running_broker() as server,
        programs(server.port, is_reachable=True) as (program, _),
    ):
        for headers in ({}, bearing(ANA)):
            answer = await program.post("/topics/orders", b"x", **headers)
            assert answer.status == 401


async def test_a_session_lasts_as_long_as_a_stream_and_ends_when_nobody_uses_it(monkeypatch):
    monkeypatch.setattr(app, "IDLE_CHECK_S", 0.001)
    clock = ManualClock(1_000_000_000)
    async with gated(clock=clock) as (_, ana, program, _):
        await ana.create_topic("apples")
        async with program.reading("/topics/apples", **bearing(ANA)) as stream:
            await stream.began()
            await program.post("/topics/bills", b"x", **bearing(BOB))
            clock.advance(31 * 60)
            with anyio.fail_after(60):
                while "bob" in [row["user"] for row in await ana.connections()]:
                    await anyio.lowlevel.checkpoint()
            await ana.publish("apples", b"x")
            assert await stream.payloads(1) == ["x"]


async def test_a_token_that_the_broker_no_longer_knows_ends_its_streams(monkeypatch):
    monkeypatch.setattr(link, "RECONNECT_S", 0.0)
    monkeypatch.setattr(reading, "RETRY_WAITS", (0.01, 0.02))
    port = free_port()
    async with broker(port) as (server, ana), programs(port) as (program, _):
        await ana.create_topic("apples")
        async with program.reading("/topics/apples", **bearing(ANA)) as stream:
            await stream.began()
            server.stop()
            await until_gone(port)
            async with broker(port, {"ana": f"zk_{'c' * 43}"}):
                await stream.next("bye")
                answer = await program.get("/topics/apples", **bearing(ANA))
                assert answer.status == 401


async def until_gone(port):
    """Returns when nothing listens there."""
    with anyio.fail_after(60), suppress(OSError):
        while True:
            async with await anyio.connect_tcp("127.0.0.1", port):
                pass


async def test_metrics_count_what_programs_do():
    async with broker_and_program() as (_, program, _):
        lines = b'{"payload":"1"}\n{"payload":"2"}'
        await program.post("/topics/orders", lines, content_type=LINES)
        await program.post("/topics/orders", b"3", idempotency_key="1")
        await program.post("/topics/orders", b"3", idempotency_key="1")
        await program.get("/topics/")
        async with program.reading("/topics/orders") as stream:
            await stream.began()
            metrics = (await program.get("/metrics")).text
    for line in (
        "http_streams 1.0",
        'http_answers_total{status="2xx"} 4.0',
        'http_answers_total{status="4xx"} 1.0',
        'http_answers_total{status="5xx"} 0.0',
        "http_published_messages_total 3.0",
    ):
        assert f"\nzaichik_{line}\n" in metrics


async def test_secrets_are_in_no_answer_and_no_text(caplog):
    caplog.set_level("DEBUG")
    async with gated() as (_, _, program, web):
        answers = [
            await program.post("/topics/apples", b"x", **bearing(token)) for token in (ANA, BOB)
        ]
        texts = [answer.text + str(answer.headers) for answer in answers]
        texts += [repr(session) for session in web.sessions._all()]
    assert not any(ANA in text or BOB in text for text in [*texts, caplog.text])
