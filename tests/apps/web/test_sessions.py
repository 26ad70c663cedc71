"""Who is logged in to the page, and what becomes of what they have logged in with."""

from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest
from browsing import page

import zaichik
from zaichik.apps.web import app, sessions
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
allow publish,describe b*
"""
TOPICS = "/state?view=topics"


def endpoint(port, secret):
    return Endpoint("127.0.0.1", port, credentials=Credentials(secret=secret))


@asynccontextmanager
async def broker(port=0, users=None):
    """Returns a broker that knows Ana and Bob, and what Ana asks of it."""
    users = users or {"ana": ANA, "bob": BOB}
    async with (
        zaichik.running_broker(port=port, users=users, rules=RULES) as server,
        zaichik.connect(endpoint(server.port, users["ana"])) as ana,
    ):
        yield server, ana


@asynccontextmanager
async def gated(**options):
    """Returns the broker, Ana's client, what makes browsers, and the page's server."""
    async with broker() as (server, ana), page(server.port, **options) as (browser, web):
        yield server, ana, browser, web


async def logged_in(browser, secret=ANA):
    assert (await browser.post("/login", {"secret": secret})).status == 200
    return browser


async def test_the_page_asks_for_a_login_where_the_broker_does():
    async with gated() as (_, _, browser, _):
        assert (await browser().get("/session")).json["login"]
        for address in (TOPICS, "/events?view=topics", "/stage/scenes"):
            assert (await browser().get(address)).status == 401
        assert (await browser().post("/publish", {"topic": "a", "payload": "x"})).status == 401
        ana = await logged_in(browser())
        session = (await ana.get("/session")).json
        assert (session["login"], session["user"], session["can_log_out"]) == (False, "ana", True)


async def test_the_broker_is_asked_once_whether_it_wants_a_login():
    """Each question counts as a failed login there, and slows down everybody on this machine."""
    async with gated() as (server, _, browser, _):
        for _ in range(5):
            await browser().get("/session")
        assert server.gate.counters["login_failed"] == 1


async def test_everybody_sees_what_they_may_see():
    async with gated() as (_, ana, browser, _):
        await ana.create_topic("a-topic")
        bobs, anas = await logged_in(browser(), BOB), await logged_in(browser(), ANA)
        assert [row[0] for row in (await anas.get(TOPICS)).json["rows"]] == ["a-topic"]
        assert [row[0] for row in (await bobs.get(TOPICS)).json["rows"]] == []
        assert (await bobs.get("/state?view=topic&topic=a-topic")).status == 503
        assert (await bobs.post("/publish", {"topic": "a-topic", "payload": "x"})).status == 403


async def test_a_cookie_is_out_of_reach_of_scripts_and_other_sites():
    async with gated() as (_, _, browser, _):
        plain = (await browser().post("/login", {"secret": ANA})).headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} == {*plain.split("; ")[1:]}
    assert ANA not in plain
    async with gated(is_encrypted=True) as (_, _, browser, _):
        cookie = (await browser().post("/login", {"secret": ANA})).headers["set-cookie"]
    assert cookie.startswith("__Host-zaichik")
    assert "Secure" in cookie.split("; ")


async def test_a_wrong_login_is_told_what_the_broker_says_and_no_more():
    async with gated() as (_, _, browser, _):
        wrong = [
            {"secret": f"zk_{'x' * 43}"},
            {"secret": "nothing"},
            {"user": "nobody", "secret": "x"},
        ]
        answers = [await browser().post("/login", body) for body in wrong]
    assert {answer.status for answer in answers} == {403}
    assert {answer.json["text"] for answer in answers} == {
        "the broker does not accept these credentials"
    }
    assert not any("set-cookie" in answer.headers for answer in answers)


async def test_a_cookie_that_was_made_up_is_none():
    async with gated() as (_, _, browser, _):
        ana = await logged_in(browser())
        ana.cookie += "x"
        assert (await ana.get(TOPICS)).status == 401


async def test_browsers_with_the_same_login_share_two_connections():
    async with gated() as (_, ana, browser, _):
        for _ in range(3):
            assert (await (await logged_in(browser())).get(TOPICS)).status == 200
        assert [row["client"] for row in await ana.connections()].count("zaichik web") == 2


async def test_who_logs_out_leaves_nothing_behind():
    async with gated() as (_, ana, browser, _):
        first = await logged_in(browser(), BOB)
        async with first.events("view=topics") as stream:
            await stream.next("rows")
            assert (await first.post("/logout")).status == 200
            assert (await stream.next("bye"))[1] == {"text": "logged out", "login": True}
        assert (await first.get(TOPICS)).status == 401
        with anyio.fail_after(60):
            while "bob" in [row["user"] for row in await ana.connections()]:
                await anyio.lowlevel.checkpoint()


async def test_a_session_that_nobody_uses_ends(monkeypatch):
    monkeypatch.setattr(app, "IDLE_CHECK_S", 0.001)
    clock = ManualClock(1_000_000_000)
    async with gated(clock=clock) as (_, ana, browser, _):
        used, unused = await logged_in(browser(), ANA), await logged_in(browser(), BOB)
        async with used.events("view=topics") as stream:
            await stream.next("rows")
            clock.advance(31 * 60)
            with anyio.fail_after(60):
                while "bob" in [row["user"] for row in await ana.connections()]:
                    await anyio.lowlevel.checkpoint()
            assert (await used.get(TOPICS)).status == 200
            assert (await unused.get(TOPICS)).status == 401


async def test_the_number_of_sessions_is_bounded(monkeypatch):
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 1)
    async with gated() as (_, _, browser, _):
        ana = await logged_in(browser())
        assert (await browser().post("/login", {"secret": BOB})).status == 503
        await ana.post("/logout")
        await logged_in(browser(), BOB)


async def test_who_guesses_at_the_page_does_not_use_up_what_the_broker_grants_this_machine():
    """The broker delays an address after 20 failures; to it, all who use the page are 127.0.0.1."""
    clock = ManualClock(1_000_000_000)
    async with gated(clock=clock) as (server, _, browser, _):
        answers = [(await browser().post("/login", {"secret": "x"})).status for _ in range(30)]
        assert answers == [403] * 10 + [429] * 20
        assert server.gate.counters["login_failed"] == 10
        clock.advance(1)
        assert (await browser().post("/login", {"secret": "x"})).status == 403
        assert server.gate.counters["throttled"] == 0


async def test_a_token_that_the_broker_no_longer_knows_ends_its_sessions():
    port = free_port()
    async with broker(port) as (server, _), page(port) as (browser, _):
        ana = await logged_in(browser())
        async with ana.events("view=topics") as stream:
            await stream.next("rows")
            server.stop()
            await stream.next("trouble")
            async with broker(port, {"ana": f"zk_{'c' * 43}"}):
                assert (await stream.next("bye"))[1]["login"]
                assert (await ana.get(TOPICS)).status == 401


async def test_a_page_that_others_can_reach_shows_nothing_without_a_login():
    async with (
        zaichik.running_broker() as server,
        page(server.port, is_reachable=True) as (browser, _),
    ):
        assert (await browser().get("/session")).json["login"]
        assert (await browser().get(TOPICS)).status == 401
        refused = await browser().post("/login", {"secret": ANA})
        assert (refused.status, "asks nobody to log in" in refused.json["text"]) == (403, True)


async def test_a_broker_that_is_not_there_is_no_wrong_login():
    async with page(free_port(), is_reachable=True) as (browser, _):
        refused = await browser().post("/login", {"secret": ANA})
        assert (refused.status, "no broker answers" in refused.json["text"]) == (503, True)


async def test_secrets_are_in_no_answer_and_no_text(caplog):
    caplog.set_level("DEBUG")
    async with gated() as (_, _, browser, web):
        ana = await logged_in(browser())
        answers = [
            await ana.get(address) for address in ("/session", TOPICS, "/state?view=connections")
        ]
        texts = [answer.text + str(answer.headers) for answer in answers] + [
            repr(web.sessions.of(ana.cookie)),
            repr(web),
        ]
    assert not any(ANA in text for text in [*texts, caplog.text])
