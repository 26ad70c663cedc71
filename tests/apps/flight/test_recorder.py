"""A broker on real sockets, recorded: whatever its clients do, a replay sends each of them the same
bytes.
"""

import json
from contextlib import asynccontextmanager
from itertools import count

import anyio
import pytest
from conversation import Conversation, batch
from framed import Keeper
from peer import GUARD

from zaichik.apps.flight.format import HOLD, FlightKind, Recording
from zaichik.apps.flight.player import Player
from zaichik.apps.flight.recorder import RecordedBroker
from zaichik.base.clock import ManualClock
from zaichik.core.settings import BrokerSettings
from zaichik.server.access.access_gate import in_memory
from zaichik_protocol import (
    FOREVER,
    TABLES,
    AdvanceClock,
    ClockAdvanced,
    Close,
    Commit,
    CreateTopic,
    Dead,
    Delete,
    Describe,
    Disconnect,
    EndCode,
    ErrorCode,
    Explain,
    FrameDecoder,
    GoAway,
    Hello,
    Lagged,
    Messages,
    Outcome,
    Overflow,
    Ping,
    Pong,
    Publish,
    Published,
    Setting,
    Settle,
    Subscribe,
    Subscribed,
    Unsubscribe,
    encode,
)
from zaichik_protocol import Kind as Described
from zaichik_protocol.frames import REQUESTS

SECRET = "zk_canary-that-nobody-may-find"


@asynccontextmanager
async def client_of(server, everybody, **hello):
    async with await anyio.connect_tcp(server.host, server.port) as stream:
        client = Keeper(stream)
        everybody.append(client)
        await client.ask(Hello(1, client="somebody", **hello))
        yield client


async def traffic(flight, server, everybody):
    """All that clients do."""
    pairs = (
        (Setting.RETENTION_TTL_MS, 1000),
        (Setting.COMPACTION_WINDOW_MS, 500),
        (Setting.JOURNAL_BYTES, 10_000),
    )
    async with client_of(server, everybody) as ana, client_of(server, everybody) as ben:
        await ana.ask(
            CreateTopic(2, "keys", pairs), CreateTopic(3, "ring", ((Setting.CAPACITY, 3),))
        )
        await ben.ask(Subscribe(2, "keys", name="ben", credit=2), Subscribe(3, "ring", credit=1))
        for number in range(9):
            await ana.ask(Publish(10 + number, "ring", batch(b"%d" % number)))
        await ben.send(Commit(4, 3, 1))
        await ben.until(Lagged)
        await ana.ask(Publish(20, "keys", batch((b"k", b"1"), (b"k", b"2"), (b"l", b"3"))))
        await ana.ask(Publish(21, "keys", batch((b"k", b"4")), producer=7, sequence=0))
        flight.clock.advance(0.7)  # the window has closed
        server.sweep()
        await ana.ask(Publish(22, "keys", batch((b"k", b"5")), producer=7, sequence=1))
        await ana.ask(Publish(22, "keys", batch((b"k", b"5")), producer=7, sequence=1))
        flight.clock.advance(0.7)  # what came first has expired
        await ben.send(Commit(5, 2, 2))
        await ben.until(Messages)
        await ana.ask(
            Subscribe(30, "$journal/keys"), Commit(31, 99, 1), Publish(32, "$own", batch(b"x"))
        )
        for kind in Described:
            await ana.ask(
                Describe(40 + kind, kind, "keys" if kind > Described.COUNTERS else "", limit=5)
            )
        await slow_reader(server, everybody, ana)
        async with await anyio.connect_tcp(server.host, server.port) as rude:
            await rude.send(encode(Hello(1)) + b"\xff" * 20)
        async with await anyio.connect_tcp(server.host, server.port) as browser:
            await browser.send(b"GET / HTTP/1.1\r\n\r\n")
            await browser.receive()
        await ben.send(Unsubscribe(50, 3))
        async with client_of(server, everybody) as gone:
            number = max(server.broker.managers)
            await ana.send(Disconnect(51, number))
            await gone.until(GoAway)
        await ana.send(Delete(52, "ring"), Close(53))
        await ana.rest()
        flight.clock.advance(100)
        server.sweep()
        await ben.send(Ping(99, 1))  # it is still there when the broker stops


async def slow_reader(server, everybody, publisher):
    """One whose socket is full for a while."""
    async with client_of(server, everybody) as slow:
        await slow.ask(Subscribe(2, "large", credit=1000, credit_bytes=2**30))
        for number in range(12):
            await publisher.send(Publish(60 + number, "large", batch(bytes(500_000))))
            await publisher.until(Published)
        for _ in range(12):
            await slow.until(Messages)


class Ticking:
    """A clock that is a second later each time that it is read."""

    def __init__(self):
        self._readings = count(1_000_000, 1_000_000)

    def now_us(self):
        return next(self._readings)


@pytest.mark.parametrize("clock", [None, Ticking()], ids=["manual", "system"])
def test_a_replay_tells_since_when_connections_were_there_and_when_they_ended(
    new_flight, replay, clock
):
    flight = new_flight(clock=clock)
    watch, other = Conversation(flight.broker), Conversation(flight.broker)
    if clock is None:
        flight.clock.advance(3)
    flight.broker.disconnect(other.manager, "GONE: BrokenResourceError")
    told = [
        *watch.ask(Describe(2, Described.BROKER)),
        *watch.ask(Describe(3, Described.CONNECTIONS)),
    ]
    (end,) = json.loads(told[0].json)["recent_ends"]
    (here,) = json.loads(told[1].json)["connections"]
    again = replay(flight.landed())
    assert (again.differences, again.recording.problem) == ([], "")
    broker = again.player.broker
    assert broker.managers[1].since_us == here["since_us"]
    assert [list(it) for it in broker.recent_ends] == [end]
    assert end[0] > here["since_us"]


@pytest.mark.anyio
@pytest.mark.parametrize("is_masked", [False, True], ids=["", "masked"])
async def test_a_replay_sends_every_client_the_same_bytes(new_flight, replay, is_masked):
    flight, everybody = new_flight(is_masked=is_masked), []
    with anyio.fail_after(GUARD):
        async with flight.served() as server:
            await traffic(flight, server, everybody)
            await anyio.wait_all_tasks_blocked()
    again = replay(flight.landed())
    assert (again.differences, again.recording.problem) == ([], "")
    assert [step.error for step in again.steps if step.error] == []
    assert len(everybody) == 4
    held = [
        HOLD.unpack_from(step.record.payload)[0]
        for step in again.steps
        if step.record.kind is FlightKind.HOLD
    ]
    assert max(held) > 100_000  # the slow one's socket was full
    for client in everybody:
        sent = again.sent()[client.name]
        assert len(sent) >= len(client.received) > 50
        if not is_masked:
            assert sent.startswith(client.received)
    assert again.player.broker.ends == flight.broker.ends
    assert {"CLOSED", "DISCONNECTED", "NOT_ZAICHIK", "FRAME_TOO_LARGE"} <= set(
        again.player.broker.ends
    )
    for ours, theirs in zip(again.player.broker.registry, flight.broker.registry, strict=True):
        assert (ours.name, ours.epoch, ours.head, ours.end) == (
            theirs.name,
            theirs.epoch,
            theirs.head,
            theirs.end,
        )


@pytest.mark.anyio
async def test_logins_and_rights_are_in_the_recording_and_no_secret_is(new_flight, replay):
    """ACC-2, ACC-4: rights that change and logins that end are what the broker was told then."""
    flight, everybody = new_flight(), []
    rules = "user ana\nallow all t*\nallow describe $broker\n"
    gate = in_memory({"ana": SECRET}, rules, flight.clock)
    with anyio.fail_after(GUARD):
        async with flight.served(gate) as server:
            async with client_of(server, everybody, auth=1, secret=SECRET) as ana:
                requests = (
                    Publish(2, "t1", batch(b"x")),
                    Publish(3, "u", batch(b"x")),
                    Subscribe(4, "t1", name="n"),
                )
                await ana.ask(
                    *requests, Describe(5, Described.BROKER), Describe(6, Described.TOPICS)
                )
            async with client_of(server, everybody, auth=1, secret=SECRET.upper()) as stranger:
                assert await stranger.rest() == []
            async with await anyio.connect_tcp(server.host, server.port) as rude:
                hello = encode(Hello(1, auth=1, secret=SECRET))
                await rude.send(
                    hello[:4] + b"\x01\x40" + hello[6:] + encode(Hello(2, auth=1, secret=SECRET))
                )
                await Keeper(rude).rest()
    data = flight.landed()
    again = replay(data)
    assert [step for step in again.steps if step.difference or step.error] == []
    assert again.sent()[everybody[0].name] == everybody[0].received
    assert {step.record.kind for step in again.steps} >= {
        FlightKind.LOG_IN,
        FlightKind.FRAME,
        FlightKind.REFUSE,
    }
    assert b"canary" not in data.lower()
    assert b"canary".hex().encode() not in data


def test_a_second_hello_is_refused_and_its_secret_is_not_recorded_either(flight):
    Conversation(flight.broker).ask(Hello(2, auth=2, user=SECRET, secret=SECRET))
    assert SECRET.encode() not in flight.landed()


def test_how_memory_is_measured_can_be_chosen_before_the_recording_begins():
    broker = RecordedBroker(BrokerSettings(), ManualClock(1))
    broker.resident = lambda: 7
    broker.begin(lambda _: True)
    assert broker.resident() == 7


class Somebody:
    """A user whose rights a test changes."""

    name, how, publishable = "ana", "token:x", ("t",)

    def __init__(self):
        self.topics = {"t", "u"}
        self.is_gone = False

    def may(self, action, topic):
        return topic in self.topics

    def denied(self, action, topic):
        pass

    def is_ended(self, now_us):
        return self.is_gone


def test_rights_that_are_withdrawn_and_a_login_that_ends_are_replayed(flight, replay):
    user, broker = Somebody(), flight.broker
    client = Conversation(broker, greeted=False)
    broker.log_in(client.manager, user, broker.scheduler.join("", lambda: False))
    client.ask(Hello(1), Publish(2, "t", batch(b"x")), Subscribe(3, "t"), Subscribe(4, "u"))
    user.topics = {"u"}
    client.manager.recheck(5, rights=True)
    ended = client.heard()
    assert client.ask(Publish(5, "t", batch(b"x")))[0].code == 74
    client.manager.recheck(6, rights=False)  # changes nothing
    user.is_gone = True
    client.manager.recheck(7, rights=False)
    assert isinstance(client.heard()[-1], GoAway)
    broker.disconnect(client.manager, client.manager.reason)
    again = replay(flight.landed())
    assert [step for step in again.steps if step.difference or step.error] == []
    assert len(ended) == 1
    assert sum(step.record.kind is FlightKind.RECHECK for step in again.steps) == 2


def test_what_is_no_longer_kept_for_a_name_is_replayed(flight, replay):
    """ACC-4: whoever may not read the topic any more does not keep a lossless one full."""
    broker = flight.broker
    client, writer = Conversation(broker, greeted=False), Conversation(broker)
    broker.log_in(client.manager, Somebody(), broker.scheduler.join("", lambda: False))
    writer.ask(CreateTopic(2, "t", ((Setting.CAPACITY, 1), (Setting.OVERFLOW, Overflow.REJECT))))
    client.ask(Hello(1), Subscribe(3, "t", name="mine"), Unsubscribe(4, 3))
    writer.ask(Publish(3, "t", batch(b"x")))
    assert writer.ask(Publish(4, "t", batch(b"x")))[0].code == ErrorCode.TOPIC_FULL
    broker.waive(lambda user, topic: (user, topic) != ("ana", "t"))
    assert isinstance(writer.ask(Publish(5, "t", batch(b"x")))[0], Published)
    again = replay(flight.landed())
    assert [step for step in again.steps if step.difference or step.error] == []
    assert [step.record.values for step in again.steps if step.record.kind is FlightKind.WAIVE] == [
        [[["ana", "t"]]]
    ]


def test_what_a_user_is_told_of_topics_is_replayed(flight, replay):
    """PAT-5: the rights that were looked up, and that everybody began again when they changed."""
    broker, user = flight.broker, Somebody()
    client, maker = Conversation(broker, greeted=False), Conversation(broker)
    broker.log_in(client.manager, user, broker.scheduler.join("", lambda: False))
    maker.ask(CreateTopic(2, "t"), CreateTopic(3, "hidden"))
    client.ask(Hello(1, features=TABLES), Subscribe(2, "$topics", credit=9))
    maker.ask(CreateTopic(4, "u"), Publish(5, "u", batch(b"x")), Delete(6, "hidden"))
    before = client.heard()
    user.topics = {"hidden"}
    broker.waive(lambda user, topic: True)
    client.manager.recheck(5, rights=True)
    _, ended, *after = client.ask(Subscribe(3, "$topics", credit=9))
    maker.ask(CreateTopic(7, "hidden"))
    after += client.heard()
    again = replay(flight.landed())
    assert [step for step in again.steps if step.difference or step.error] == []
    assert [messages.batch.keys() for messages in before] == [[b"u"]]
    assert ended.code == EndCode.DELETED
    assert [messages.batch.keys() for messages in after] == [[b"hidden"]]


def test_what_is_handed_out_and_lost_is_replayed(flight, replay):
    """SHR: tickets, time-outs, and how long a lost connection may stay away, without its clock."""
    broker = flight.broker
    maker, first, second = Conversation(broker), Conversation(broker), Conversation(broker)
    maker.ask(CreateTopic(2, "t", ((Setting.RETENTION_TTL_MS, FOREVER),)))
    maker.ask(Publish(3, "t", batch(b"0", b"1", b"2", b"3")))
    how = {"shared": True, "timeout_ms": 2000, "max_deliveries": 1, "credit": 2}
    _, held = first.ask(Subscribe(2, "t", "n", owned=True, owner=7, **how))
    _, other = second.ask(Subscribe(2, "t", "n", **how))
    second.ask(Settle(3, 2, Outcome.REJECT, tickets=(other.ticket,)))
    broker.disconnect(first.manager, "GONE")
    for _ in range(4):
        flight.clock.advance(1)
        broker.sweep()
        second.heard()
    (page,) = maker.ask(Dead(4, "t", "n"))
    again = replay(flight.landed())
    assert [step for step in again.steps if step.difference or step.error] == []
    assert len(json.loads(page.json)["dead"]) == 2
    assert held.ticket < other.ticket


def test_a_clock_that_clients_move_is_not_moved_by_logins_that_are_rechecked(flight, replay):
    """TIM-4: these go by the machine's clock."""
    client, user = Conversation(flight.broker, greeted=False), Somebody()
    user.topics = {"$broker"}
    flight.broker.log_in(client.manager, user, flight.broker.scheduler.join("", lambda: False))
    client.manager.recheck(10**15, rights=True)
    assert client.ask(Hello(1), AdvanceClock(2, 2_000_000))[-1] == ClockAdvanced(2)
    again = replay(flight.landed())
    assert again.differences == []
    assert len(list(Player(Recording(bytes(flight.data))).steps(2_000_000))) == len(again.steps)


def test_calls_that_the_broker_makes_of_itself_are_no_records(flight, replay):
    one, other = Conversation(flight.broker), Conversation(flight.broker)
    one.ask(Disconnect(2, 2), Subscribe(3, "t"), Close(4))
    other.heard()
    for client in one, other:
        flight.broker.disconnect(client.manager, client.manager.reason)
    kinds = [step.record.kind for step in replay(flight.landed()).steps]
    assert FlightKind.CALL not in kinds
    assert kinds.count(FlightKind.FRAME) == 5


def test_a_turn_that_is_given_while_the_broker_asks_for_one_is_recorded(flight, replay):
    """The scheduler may serve connections before `close` returns."""
    other, turns = Conversation(flight.broker), []

    def turn():
        if turns:
            turns.append(manager.next_output(5))
            other.manager.apply(Ping(2, 1), 6)
            flight.broker.memory.take("", 7)

    manager = flight.broker.connect(turn)
    manager.apply(Hello(1), 4)
    turns.append(manager.next_output(4))
    manager.close()
    manager.close()
    again = replay(flight.landed())
    names = ["OUTPUT", *["CALL", "OUTPUT", "FRAME", "HOLD"] * 2, "END"]
    assert [step.record.kind.name for step in again.steps[-len(names) :]] == names
    assert again.differences == []


def test_a_connection_for_an_operator_a_stop_and_a_peer_that_is_gone_are_replayed(flight, replay):
    operator, other, gone = (Conversation(flight.broker, greeted=False) for _ in range(3))
    operator.manager.restrict()
    _, refused = operator.ask(Hello(1), Publish(2, "t", batch(b"x")))
    assert refused.code == ErrorCode.TOO_MANY_CONNECTIONS
    gone.tell(Hello(1))
    _, full = other.ask(Hello(1), Describe(2, Described.CONNECTIONS, after=f"{2:08}"))
    gone.manager.drop_replies()
    (empty,) = other.ask(Describe(3, Described.CONNECTIONS, after=f"{2:08}"))
    assert (b'"reply_bytes": 0' in full.json, b'"reply_bytes": 0' in empty.json) == (False, True)
    other.manager.stop()
    assert isinstance([*other.turn(), *other.turn()][0], GoAway)
    assert replay(flight.landed()).differences == []


def test_an_explanation_of_what_a_socket_has_not_accepted_is_replayed(flight, replay):
    reader, other = Conversation(flight.broker), Conversation(flight.broker)
    reader.ask(Subscribe(2, "t"))
    reader.manager.note_unsent(7)
    other.ask(Publish(2, "t", batch(b"x")))
    (held,) = other.ask(Explain(3, "t"))
    reader.manager.drop_replies()
    (gone,) = other.ask(Explain(4, "t"))
    assert (b'"unsent_bytes": 7' in held.json, b"unsent_bytes" in gone.json) == (True, False)
    assert replay(flight.landed()).differences == []


def test_a_masked_payload_has_its_length_and_equal_ones_stay_equal(new_flight, replay):
    flight = new_flight(is_masked=True)
    payloads = [b"card 4000", b"", b"card 4000", b"card 4001", b"x" * 1000]
    Conversation(flight.broker).ask(Publish(2, "t", batch(*payloads)))
    data = flight.landed()
    assert b"card" not in data
    assert b"xxx" not in data
    again = replay(data)
    assert again.differences == []
    decoder = FrameDecoder(REQUESTS, max_frame=10_000)
    decoder.receive_data(
        next(
            step.record.payload for step in again.steps[3:] if step.record.kind is FlightKind.FRAME
        )
    )
    masked = decoder.next_frame().batch.payloads()
    assert [len(payload) for payload in masked] == [9, 0, 9, 9, 1000]
    assert masked[0] == masked[2] != masked[3]


def test_what_two_recordings_have_masked_cannot_be_compared(new_flight, replay):
    """Or else anybody could try which payload it was."""
    frames = []
    for _ in range(2):
        flight = new_flight(is_masked=True)
        Conversation(flight.broker).ask(Publish(2, "t", batch(b"a payload")))
        frames += [
            step.record.payload
            for step in replay(flight.landed()).steps
            if step.record.kind is FlightKind.FRAME
        ]
    assert frames[0] == frames[2]
    assert frames[1] != frames[3]


def test_the_broker_goes_on_when_nothing_more_can_be_written(flight):
    flight.takes = False
    client = Conversation(flight.broker)
    flight.broker.sweep()
    length = len(flight.data)
    assert isinstance(client.ask(Publish(2, "t", batch(b"x")))[0], Published)
    flight.broker.sweep()
    flight.broker.tape.end()
    assert len(flight.data) == length > 0


def test_a_broker_that_is_not_recorded_yet_serves(new_flight):
    flight = new_flight()
    flight.broker.tape.end()
    assert isinstance(Conversation(flight.broker).ask(Ping(2, 3))[0], Pong)


def test_records_are_written_in_chunks_and_once_in_every_sweep(flight):
    client = Conversation(flight.broker)
    assert not flight.data
    flight.broker.sweep()
    assert (written := len(flight.data)) > 0
    client.ask(Publish(2, "t", batch(bytes(100_000))))
    assert len(flight.data) == written
    client.ask(Publish(2, "t", batch(bytes(100_000))))
    assert len(flight.data) > written + 200_000


def test_what_a_client_holds_and_what_it_is_refused_for_that(new_flight, replay):
    """LAG-6: bytes that connections hold decide about requests, and come from outside."""
    flight = new_flight(max_client_bytes=100_000)
    client = Conversation(flight.broker)
    flight.broker.memory.take("", 90_000)
    (refused,) = client.ask(Subscribe(2, "t", name="n"))
    assert refused.code == ErrorCode.NO_MEMORY
    flight.broker.memory.take("", -90_000)
    (begun,) = client.ask(Subscribe(3, "t", name="n"))
    assert isinstance(begun, Subscribed)
    assert replay(flight.landed()).differences == []
