"""The topic of a work queue: what it can lose is said."""

import pytest
from brokers import real_broker

import zaichik
from zaichik.apps.work.queue_state import state_of, what_holds
from zaichik.apps.work.topic import losses, prepare
from zaichik.core.settings import TopicSettings
from zaichik_protocol import FOREVER, Overflow

SAFE = {"retention_ttl_ms": FOREVER, "overflow": Overflow.REJECT, "durable": 1}


def of(**changes):
    """The losses of a topic that differs from a safe one in this."""
    return list(losses(TopicSettings(**SAFE).by_name() | changes))


def test_a_topic_that_loses_nothing():
    """SHR-9."""
    assert of() == []


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"retention_ttl_ms": 0}, "before the first worker comes"),
        ({"retention_ttl_ms": 5000}, "expires"),
        ({"overflow": Overflow.EVICT}, "evicted"),
        ({"compaction_window_ms": 10}, "only the first"),
        ({"durable": 0}, "restart"),
        ({"table": 1}, "takes the place"),
    ],
)
def test_what_a_topic_can_lose_is_said(changes, text):
    """SHR-9."""
    (sentence,) = of(**changes)
    assert text in sentence


def test_all_that_a_topic_as_it_comes_can_lose_is_said():
    assert len(list(losses(TopicSettings().by_name()))) == 3


LOSSY = (
    "what is published before the first worker comes is not kept; when it is full, the oldest "
    "messages are evicted; a restart of the broker loses everything"
)
ADVICE = (
    "A topic that loses none: zaichik create NAME --durable --retention forever --overflow reject"
)


@pytest.mark.anyio
async def test_a_topic_is_made_so_that_it_loses_nothing():
    """SHR-9."""
    async with real_broker() as broker, zaichik.connect(broker.host, broker.port) as client:
        assert await prepare(client, "jobs") == (
            "jobs can lose jobs: a restart of the broker loses everything. A broker with a folder "
            "keeps them: zaichik serve --data DIR"
        )
        settings = (await client.topic("jobs"))["settings"]
        assert (settings["overflow"], settings["retention_ttl_ms"]) == (1, 2**64 - 1)


@pytest.mark.anyio
async def test_a_topic_that_is_there_stays_as_it_is():
    """SHR-9."""
    async with real_broker() as broker, zaichik.connect(broker.host, broker.port) as client:
        await client.create_topic("lossy")
        assert await prepare(client, "lossy") == f"lossy can lose jobs: {LOSSY}. {ADVICE}"
        assert (await client.topic("lossy"))["settings"]["overflow"] == 0


@pytest.mark.anyio
async def test_a_durable_topic_where_that_is_possible(tmp_path):
    """SHR-9."""
    async with (
        zaichik.running_broker(data=tmp_path) as broker,
        zaichik.connect(broker.host, broker.port) as client,
    ):
        assert await prepare(client, "jobs") == ""
        assert (await client.topic("jobs"))["settings"]["durable"] == 1


@pytest.mark.parametrize("rights", ["subscribe", "subscribe,create"])
@pytest.mark.anyio
async def test_a_user_who_may_not_see_the_topic_is_told_so(rights):
    """SHR-9: never in silence."""
    tokens = {"ana": "zk_" + 43 * "A", "bob": "zk_" + 43 * "B"}
    rules = f"user ana\nallow {rights} images\nuser bob\nallow all *\n"
    async with zaichik.running_broker(users=tokens, rules=rules) as broker:
        ana, bob = (
            zaichik.Endpoint(broker.host, broker.port, credentials=zaichik.Credentials(secret=it))
            for it in tokens.values()
        )
        async with zaichik.connect(bob) as client:
            await client.create_topic("images")
        async with zaichik.connect(ana) as client:
            assert "no right to describe it" in await prepare(client, "images")
            async with client.subscribe("images", name="thumbs", shared=True):
                assert await what_holds(client, "images", "thumbs", "ana") == ""
                assert (await state_of(client, "images", "thumbs", "ana")).left == 0
