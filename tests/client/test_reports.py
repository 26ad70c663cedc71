"""What a broker reports as JSON is what the documents say, or an error that says what is wrong."""

import json
from base64 import b64encode

import pytest
from brokers import fake_client, real_client

import zaichik
from zaichik.client.reports import explained_of, names_of, page_of
from zaichik_protocol import Describe, Described, Explain, Explained, Kind

TOPIC = {
    "name": "t",
    "epoch": 7,
    "explicit": True,
    "settings": {"retention_ttl_ms": 2**64 - 1},
    "head": 0,
    "next_offset": 5,
    "head_us": None,
    "last_us": -(2**63),
    "left_over": {"published - stored": -1},
    "of a later version": [1.5, {"a": []}],
}
VERDICT = {"fate": "settled", "rule": "CMT-1", "text": "x", "next": "", "evidence": {"offset": 3}}
KEY = b64encode(b"\xff").decode()


def dumped(value):
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("kind", "page"),
    [
        (Kind.BROKER, {}),
        (Kind.BROKER, {"boot": 2**64 - 1, "now_us": 0, "limits": {}, "resident": None}),
        (Kind.BROKER, {"limits": {"drain_timeout": 10.5, "auto_create": True}, "disconnects": {}}),
        (Kind.TOPICS, {"topics": []}),
        (Kind.TOPICS, {"topics": [TOPIC, {"name": "u"}]}),
        (
            Kind.SUBSCRIPTIONS,
            {"subscriptions": [{"name": "t#1.2", "until": None, "left_over": {}}]},
        ),
        (Kind.CONNECTIONS, {"connections": [{"name": "00000001", "connection": 1}]}),
        (Kind.COUNTERS, {"columns": ["name", "head", "x"], "rows": [["t", 1, None], ["u", 2, ""]]}),
        (Kind.WINDOWS, {"windows": [[KEY, 1], ["", -1]]}),
        (Kind.MARKS, {"marks": [[0, 1]]}),
        (Kind.FURTHEST, {"subscriptions": [{"name": "t#1.2", "committed": 3}]}),
    ],
)
def test_what_the_documents_say_is_passed_on_as_it_is(kind, page):
    assert page_of(dumped(page), kind) == page


@pytest.mark.parametrize(
    ("kind", "data", "problem"),
    [
        (Kind.BROKER, b"", "not JSON"),
        (Kind.BROKER, b"\xff", "not JSON"),
        (Kind.BROKER, b"{", "not JSON"),
        (Kind.BROKER, b"[" * 100_000 + b"]" * 100_000, "not JSON: it is nested too deeply"),
        (Kind.BROKER, b"[" + b"9" * 5000 + b"]", "not JSON"),
        (Kind.BROKER, b"[]", "JSON that is not an object"),
        (Kind.TOPICS, b"null", "JSON that is not an object"),
        (Kind.TOPICS, b"{}", '"topics": it may be older'),
        (Kind.TOPICS, b'{"topics": {}}', '"topics" that is not a list'),
        (Kind.TOPICS, b'{"topics": [1]}', r'"topics\[0\]" that is not an object'),
        (Kind.TOPICS, b'{"boot": "x", "topics": []}', '"boot" that is not a number'),
        (Kind.COUNTERS, b'{"rows": []}', '"columns": it may be older'),
        (Kind.COUNTERS, b'{"columns": [], "rows": []}', 'of which the first is "name"'),
        (Kind.COUNTERS, b'{"columns": ["name"], "rows": [["a", 1]]}', "as many values"),
        (Kind.COUNTERS, b'{"columns": ["name"], "rows": ["a"]}', "as many values"),
        (Kind.COUNTERS, b'{"columns": ["name"], "rows": [[1]]}', r'"rows\[0\].name" .* text'),
        (Kind.WINDOWS, b'{"windows": [["A", 1]]}', r'"windows\[0\]" that is not base64'),
        (Kind.WINDOWS, b'{"windows": [[1, 1]]}', r'"windows\[0\]" that is not base64'),
        (Kind.WINDOWS, b'{"windows": [[""]]}', "a list of 2"),
        (Kind.MARKS, b'{"marks": [7]}', "a list of 2"),
        (Kind.MARKS, b'{"marks": [[-1, 7]]}', r'"marks\[0\]" that is not a number'),
        (Kind.SUBSCRIPTIONS, b'{"subscriptions": [{"id": true}]}', r'\[0\].id" .* not a number'),
        (Kind.CONNECTIONS, b'{"connections": [{"peer": 5}]}', r'\[0\].peer" .* not text'),
    ],
)
def test_a_page_that_is_none_says_what_is_wrong(kind, data, problem):
    with pytest.raises(zaichik.UnexpectedReply, match=problem):
        page_of(data, kind)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epoch", None),
        ("epoch", "7"),
        ("next_offset", 2**64),
        ("next_offset", 1.5),
        ("next_offset", True),
        ("head", -5),
        ("head_us", "yesterday"),
        ("last_us", -(2**63) - 1),
        ("explicit", 1),
        ("settings", []),
        ("settings", {"durable": None}),
        ("left_over", {"x": "1"}),
        ("name", ["t"]),
    ],
)
def test_a_field_of_another_type_is_named(name, value):
    page = {"topics": [TOPIC, TOPIC | {name: value}]}
    with pytest.raises(zaichik.UnexpectedReply, match=rf'"topics\[1\].{name}" that is not '):
        page_of(dumped(page), Kind.TOPICS)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"[]", "answered Explain with JSON that is not an object"),
        (b"{}", '"verdicts": it may be older'),
        (b'{"verdicts": 7}', '"verdicts" that is not a list'),
        (b'{"verdicts": [[]]}', r'"verdicts\[0\]" that is not an object'),
        (dumped({"verdicts": [VERDICT | {"fate": 7}]}), r'\[0\].fate" that is not text'),
        (dumped({"verdicts": [VERDICT | {"evidence": []}]}), r'\[0\].evidence" .* an object'),
        (dumped({"offset": "3", "verdicts": []}), '"offset" that is not null or a number'),
    ],
)
def test_verdicts_that_are_none_say_what_is_wrong(data, problem):
    with pytest.raises(zaichik.UnexpectedReply, match=problem):
        explained_of(data)


def test_verdicts_are_passed_on_as_they_are():
    explained = {"topic": "t", "offset": None, "key": "k", "verdicts": [VERDICT]}
    assert explained_of(dumped(explained)) == explained


def test_a_field_that_is_missing_is_an_error_when_it_is_asked_for():
    page = page_of(dumped({"topics": [{"name": "t"}]}), Kind.TOPICS)
    (topic,) = page["topics"]
    assert topic.get("epoch") is None
    with pytest.raises(zaichik.UnexpectedReply, match=r'"epoch": .* \[UNEXPECTED_REPLY\]$'):
        topic["epoch"]


@pytest.mark.parametrize(
    ("kind", "names"),
    [(Kind.TOPICS, ["t", "u"]), (Kind.COUNTERS, ["t", "u"]), (Kind.BROKER, [])],
)
def test_the_names_of_a_page(kind, names):
    page = {"topics": [{"name": "t"}, {"name": "u"}], "columns": ["name"], "rows": [["t"], ["u"]]}
    assert names_of(page, kind) == names


# -- the client ----------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("names", [[], ["a"], ["b", "a"]])
async def test_pages_that_lead_nowhere_are_not_followed(names):
    """The page before has ended with "b", so each of these would be the next one for ever."""
    pages = [["a", "b"], names]

    def describe(frame):
        topics = [{"name": name} for name in pages[bool(frame.after)]]
        return Described(frame.id, 1, dumped({"topics": topics}))

    async with fake_client({Describe: describe}) as (broker, client):
        with pytest.raises(zaichik.UnexpectedReply, match=r"no names after '[ab]'"):
            await client.topics()
        assert len(broker.of(Describe)) <= 3
        await client.ping()


@pytest.mark.anyio
async def test_names_come_in_whatever_order_the_broker_has_them():
    def describe(frame):
        number = int(frame.after or 8) + 1
        return Described(frame.id, number < 11, dumped({"connections": [{"name": str(number)}]}))

    async with fake_client({Describe: describe}) as (_, client):
        assert [it["name"] for it in await client.connections()] == ["9", "10", "11"]


@pytest.mark.anyio
async def test_a_field_that_is_missing_is_the_same_error_wherever_it_is_asked_for():
    def describe(frame):
        if frame.kind == Kind.COUNTERS:
            return Described(frame.id, 0, dumped({"columns": ["name"], "rows": [["t"]]}))
        return Described(frame.id, 0, dumped({"topics": [{"name": "t"}]}))

    async with fake_client({Describe: describe}) as (_, client):
        for report in (await client.topic("t"), *await client.topics(), *await client.counters()):
            with pytest.raises(zaichik.UnexpectedReply, match='did not report "refused"'):
                report["refused"]


@pytest.mark.anyio
async def test_the_broker_itself_is_one_page():
    answers = {Describe: lambda frame: Described(frame.id, 1, b"{}")}
    async with fake_client(answers) as (_, client):
        with pytest.raises(zaichik.UnexpectedReply, match="no names after ''"):
            await client.describe()


@pytest.mark.anyio
async def test_a_wrong_explanation_is_an_error():
    answers = {Explain: lambda frame: Explained(frame.id, b'{"verdicts": [7]}')}
    async with fake_client(answers) as (_, client):
        with pytest.raises(zaichik.UnexpectedReply, match="not an object"):
            await client.explain("t", offset=3)


@pytest.mark.anyio
async def test_what_our_broker_reports_is_accepted():
    async with real_client() as client:
        await client.create_topic("t", retention_ttl="forever", compaction_window=60.0)
        await client.publish("t", b"a", key="k")
        async with client.subscribe("t", name="n") as subscription:
            await anext(subscription)
            assert (await client.describe())["topics"] == 1
            assert [topic["next_offset"] for topic in await client.topics()] == [1]
            assert [reader["session"] for reader in await client.subscriptions()] == ["n"]
            assert [row["published"] for row in await client.counters()] == [1]
            assert [key for key, _ in await client.windows("t")] == [b"k"]
            assert [offset for offset, _ in await client.marks("t")] == [0]
            assert len(await client.furthest("t")) == 1
            assert len(await client.connections()) == 1
            explained = await client.explain("t", offset=0)
            assert [verdict["fate"] for verdict in explained["verdicts"]] == [
                "readable",
                "in_flight",
            ]
