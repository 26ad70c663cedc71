"""What the rows of `test_limits` do: each function brings an amount to a broker and returns
what became of it.

Called with the name of a setting, its value, and the amount. Time is a number here: a
`ManualClock`, or trio's clock for what really waits.
"""

import anyio
from conversation import Conversation, batch, broker_with, frames_of
from peer import Peer, connected_to, settled
from trio.testing import MockClock

from zaichik.server.server import Server
from zaichik_protocol import (
    HEARTBEAT,
    CreateTopic,
    Error,
    ErrorCode,
    GoAway,
    Hello,
    Messages,
    Outcome,
    Ping,
    Publish,
    Refused,
    Setting,
    Settle,
    Subscribe,
    Unsubscribe,
    Welcome,
    encode,
)

FITS = "it fits"
GONE = "it is gone"
WAITS = "it waits"
MOMENT = 1e-7  # seconds: less than any step between two amounts


def outcome(frame):
    return ErrorCode(frame.code) if isinstance(frame, Error) else FITS


def of_requests(make, **settings):
    """A probe: what `make(amount)` is answered, the last of it."""

    def probe(name, limit, amount):
        client = Conversation(broker_with(**{name: limit}, **settings))
        return outcome(client.ask(*make(amount))[-1])

    return probe


def with_topic(name, limit, **others):
    """A client of a broker with one topic, "t", that has these settings."""
    client = Conversation(broker_with())
    settings = {name: limit, **others}
    client.ask(
        CreateTopic(2, "t", tuple((Setting[key.upper()], value) for key, value in settings.items()))
    )
    return client, client.broker.registry.get_or_create("t", 0)


# -- what one client may ask for -----------------------------------------------------------------


def a_message(size):
    return [Publish(2, "t", batch(b"p" * size))]


def two_messages(size):
    return [Publish(2, "t", batch(b"p", b"p" * (size - 1)))]


def messages(count):
    return [Publish(2, "t", batch(*[b""] * count))]


def a_key(size):
    return [Publish(2, "t", batch((b"k" * size, b"")))]


def a_batch_of_bytes(size):
    return [Publish(2, "t", batch(b"p" * (size - 20)))]


def subscriptions(count):
    return [Subscribe(2 + number, "t") for number in range(count)]


def credit(messages):
    return [Subscribe(2, "t", credit=messages)]


def topics(count):
    return [CreateTopic(2 + number, f"t{number}") for number in range(count)]


def topics_with_journals(count):
    """The first has a journal if they are as many as that; it counts as a topic (JRN-2)."""
    return [*topics(count - 1)[1:], CreateTopic(2, "t", ((Setting.JOURNAL_BYTES, 1000),))]


def journals_for_topics_in_use(count):
    """TOP-3: settings may come after the first use, as long as nothing was stored."""
    return [
        Subscribe(2, "t"),
        *topics(count - 2),
        CreateTopic(2, "t", ((Setting.JOURNAL_BYTES, 1000),)),
    ]


def bytes_of_a_name(_, __, size):
    return outcome(Conversation(broker_with()).ask(CreateTopic(2, "n" * size))[-1])


def producers(count):
    return [Publish(2, "t", batch(b""), producer=1 + number) for number in range(count)]


def named_subscriptions(count):
    return [Subscribe(2 + number, "t", f"s{number}") for number in range(count)]


def handed_out(name, limit, count):
    """SHR-2: so many messages are open at once."""
    client = Conversation(broker_with(**{name: limit}))
    client.ask(Subscribe(2, "t", "n", credit=99, shared=True))
    got = client.ask(Publish(0, "t", batch(*[b""] * count)))
    return FITS if sum(frame.batch.count for frame in got) == count else WAITS


def handed_out_after_so_many_died(name, limit, count):
    """SHR-5: of a name that has so many dead, nothing more is handed out."""
    client = Conversation(broker_with(**{name: limit}))
    client.ask(Subscribe(2, "t", "n", credit=99, shared=True))
    (got,) = client.ask(Publish(0, "t", batch(*[b""] * count)))
    tickets = tuple(range(got.ticket, got.ticket + count))
    client.ask(Settle(0, 2, Outcome.REJECT, tickets=tickets))
    return FITS if client.ask(Publish(0, "t", batch(b""))) else WAITS


def bytes_of_a_subscriptions_name(_, __, size):
    return outcome(Conversation(broker_with()).ask(Subscribe(2, "t", "n" * size))[0])


def the_first_of_so_many_batches_again(_, __, count):
    """PUB-4: its answer is kept, as long as there are not too many after it."""
    client = Conversation(broker_with())
    client.tell(
        *[Publish(0, "t", batch(b""), producer=1, sequence=number) for number in range(count)]
    )
    return outcome(client.ask(Publish(2, "t", batch(b""), producer=1, sequence=0))[-1])


# -- bytes of a connection -----------------------------------------------------------------------


def simulated(story, **others):
    """A probe: a story that a broker goes through, on a clock that jumps to the next event whenever
    all tasks wait.
    """

    def probe(name, limit, amount):
        async def tell():
            settings = (
                {} if name.isupper() else {name: limit}
            )  # what is upper case is a constant of the protocol
            return await story(broker_with(**settings, **others), amount)

        return anyio.run(
            tell, backend="trio", backend_options={"clock": MockClock(autojump_threshold=0)}
        )

    return probe


async def length_field(broker, amount):
    peer = Peer()
    async with connected_to(broker, peer):
        peer.send_bytes(amount.to_bytes(4, "little"))
        await settled()
    return outcome(frames_of([bytes(peer.stream.sent)])[-1])


async def length_field_of_a_hello(broker, amount):
    peer = Peer(greeting=False)
    async with connected_to(broker, peer):
        peer.send_bytes(amount.to_bytes(4, "little"))
        await settled()
    said = frames_of([bytes(peer.stream.sent)])
    return outcome(said[-1]) if said else FITS


async def replies_before_the_next_request(broker, amount):
    """LAG-3: the socket is full, one reply waits, and then comes a request."""
    peer = Peer()
    async with connected_to(broker, peer) as (connection,):
        await settled()
        peer.stream.room = 0
        peer.send(Ping(2))
        await settled()
        empty = len(encode(Error(0, 65, 0, "", 0, "")))
        connection._manager.refuse(Refused(ErrorCode.UNSUPPORTED, "m" * (amount - empty)), 0, 0)
        assert connection._manager.replies.bytes == amount
        peer.send(CreateTopic(0, "t"))
        await settled()
        return FITS if len(broker.registry) else WAITS


def bytes_before_the_next_message(name, limit, amount):
    client = Conversation(broker_with(**{name: limit}))
    frame_of_nothing = len(encode(Messages(2, 0, 0, batch(b""))))
    client.ask(Subscribe(2, "t", credit=9))
    client.tell(
        Publish(0, "t", batch(b"p" * (amount - frame_of_nothing))), Publish(0, "t", batch(b""))
    )
    return FITS if len(client.turn()) == 2 else WAITS


# -- time on the broker's clock ------------------------------------------------------------------


async def checked(broker, connection, amount):
    """Check once a second, and twice at the end: only a peer that is overdue at two checks is
    disconnected.
    """
    start = broker.clock.now_us()
    end = start + round(amount * 1_000_000)
    for moment in (*range(start, end, 1_000_000), end, end):
        connection.check_deadlines(moment)
    await settled()


def seconds_after(sent, **settings):
    """A probe: these bytes come, and so many seconds later the peer's frames are checked."""

    async def story(broker, amount):
        peer = Peer(greeting=False)
        async with connected_to(broker, peer) as (connection,):
            peer.send_bytes(sent)
            await settled()
            await checked(broker, connection, amount)
        last = frames_of([bytes(peer.stream.sent)])[-1]
        return outcome(last)

    return simulated(story, **settings)


HALF_A_FRAME = encode(Hello(1)) + encode(Ping(2))[:-1]
SILENCE = encode(Hello(1, features=HEARTBEAT))


def a_frame_at_that_rate(name, limit, amount):
    """Two seconds are allowed for anything; then a frame of 3 000 bytes comes at `amount` bytes a
    second.
    """
    begun = encode(Hello(1)) + (3_000 - 4).to_bytes(4, "little")
    return seconds_after(begun, frame_timeout=2.0)(name, limit, 2 + 3_000 / amount)


async def nothing_is_read(broker, amount):
    """LAG-3: nothing of the Welcome is taken."""
    peer = Peer(room=0)
    async with connected_to(broker, peer) as (connection,):
        await settled()
        await checked(broker, connection, amount)
    return GONE if peer.stream.is_reset else FITS


def read_after(name, limit, amount):
    """RET-1: published at one time, asked for so many milliseconds later."""
    client, _ = with_topic(name, limit)
    client.ask(Publish(0, "t", batch(b"")))
    client.broker.clock.advance(amount / 1000)
    frames = client.ask(Subscribe(3, "t"))
    return FITS if isinstance(frames[-1], Messages) else GONE


def repeated_after(name, limit, amount):
    """COM-1: two messages of a key, so many milliseconds apart."""
    client, topic = with_topic(name, limit)
    client.ask(Publish(0, "t", batch((b"k", b""))))
    client.broker.clock.advance(amount / 1000)
    client.ask(Publish(0, "t", batch((b"k", b""))))
    return FITS if topic.compacted else GONE


def numbered_again_after(name, limit, amount):
    """PUB-4: two batches of a producer, so many seconds apart."""
    client = Conversation(broker_with(**{name: limit}))
    client.ask(Publish(2, "t", batch(b""), producer=1, sequence=0))
    client.broker.clock.advance(amount)
    client.broker.sweep()
    return outcome(client.ask(Publish(2, "t", batch(b""), producer=1, sequence=1))[0])


def topic_unused_for(name, limit, amount):
    """TOP-7: the topic is unused for so many seconds, from the first sweep that finds it so."""
    client = Conversation(broker_with(**{name: limit}))
    client.ask(Subscribe(2, "t"), Unsubscribe(3, 2))
    client.broker.sweep()
    client.broker.clock.advance(amount)
    client.broker.sweep()
    return FITS if len(client.broker.registry) else GONE


def back_after(name, limit, amount):
    """CMT-3: the reader is away for so many seconds, from the first sweep that finds it so."""
    client = Conversation(broker_with(**{name: limit}))
    client.ask(Subscribe(2, "t", "name"), Unsubscribe(3, 2))
    client.broker.sweep()
    client.broker.clock.advance(amount)
    client.broker.sweep()
    (subscribed,) = client.ask(Subscribe(4, "t", "name"))
    return FITS if subscribed.resumed else GONE


# -- what a topic holds --------------------------------------------------------------------------


def messages_kept(name, limit, amount):
    client, topic = with_topic(name, limit)
    client.ask(*[Publish(0, "t", batch(b""))] * amount)
    return GONE if topic.retained.ring.evicted else FITS


def messages_at_once(name, limit, amount):
    return outcome(with_topic(name, limit)[0].ask(*messages(amount))[-1])


def bytes_kept(name, limit, amount):
    client, topic = with_topic(name, limit)
    client.ask(Publish(0, "t", batch(b"")), Publish(0, "t", batch(b"p" * (amount - 40))))
    return GONE if topic.retained.ring.evicted else FITS


def bytes_at_once(name, limit, amount):
    return outcome(with_topic(name, limit)[0].ask(*a_batch_of_bytes(amount))[-1])


def keys_remembered(name, limit, amount):
    client, topic = with_topic(name, limit, compaction_window_ms=1000)
    client.ask(Publish(0, "t", batch(*[(b"%d" % number, b"") for number in range(amount)])))
    client.ask(Publish(0, "t", batch((b"0", b""))))
    return FITS if topic.compacted else GONE


def bytes_of_the_journal(name, limit, amount):
    client, topic = with_topic(name, limit)
    client.ask(*a_key(amount - 20 - 40))
    journal = client.broker.registry.get("$journal/t", topic.epoch)
    return GONE if journal.retained.ring.evicted else FITS


# -- time that really passes, on trio's clock ----------------------------------------------------


class MemoryListener:
    """Accepts these streams, in this order, and no others."""

    host, port = "memory", 0

    def __init__(self, peers):
        self.peers = peers

    async def serve(self, handler, tasks, turn):
        for peer in self.peers:
            await turn()
            tasks.start_soon(handler, peer.stream, "memory:0")
            await anyio.wait_all_tasks_blocked()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass


async def connections(broker, count):
    peers = [Peer() for _ in range(count)]
    server = Server(broker, MemoryListener(peers))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.run)
        first = [await peer.receive() for peer in peers]
        server.stop()
        for peer in peers:
            peer.end()
    return outcome(first[-1])


async def hello_after(broker, seconds):
    """TIM-1: the last byte of a Hello comes then, or a moment later, because at the same time could
    be before.
    """
    peer = Peer(greeting=False)
    server = Server(broker, MemoryListener([peer]))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.run)
        peer.send_bytes(encode(Hello(1))[:-1])
        await anyio.sleep(seconds + MOMENT)
        peer.send_bytes(encode(Hello(1))[-1:])
        first = await peer.receive()
        server.stop()
        peer.end()
    return outcome(first)


async def peer_that_reads_after_the_stop(broker, seconds):
    """CLO-2: the broker is stopped, and so long later the peer takes what is waiting."""
    peer = Peer(room=1)
    server = Server(broker, MemoryListener([peer]))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.run)
        await anyio.wait_all_tasks_blocked()
        server.stop()
        await anyio.sleep(seconds)
        peer.read_on()
        said = await peer.rest()
        peer.end()
    return FITS if [type(frame) for frame in said] == [Welcome, GoAway] else GONE
