"""What the rows of `test_limits` do: each function brings an amount to a broker and tells what became of it.

Called with the name of a setting, its value, and the amount. Time is a number here: a `ManualClock`, or trio's clock
for what really waits.
"""

import anyio
from conversation import Conversation, batch, broker_with, frames_of
from peer import Peer
from trio.testing import MockClock

from zaichik.broker.broker import Broker
from zaichik.broker.connection import Connection
from zaichik.broker.server import Server
from zaichik.broker.settings import BrokerSettings
from zaichik_protocol import (
    HEARTBEAT,
    CreateTopic,
    Error,
    ErrorCode,
    GoAway,
    Hello,
    Messages,
    Ping,
    Publish,
    Refused,
    Setting,
    Subscribe,
    Unsubscribe,
    Welcome,
    encode,
)

FITS = "it fits"
GONE = "it is gone"
WAITS = "it waits"


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
    client.ask(CreateTopic(2, "t", tuple((Setting[key.upper()], value) for key, value in settings.items())))
    return client, client.broker.registry.get_or_create("t", 0)


# -- what one client may ask for -------------------------------------------------------------------------------


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
    return [Subscribe(2, "t"), *topics(count - 2), CreateTopic(2, "t", ((Setting.JOURNAL_BYTES, 1000),))]


def bytes_of_a_name(_, __, size):
    return outcome(Conversation(broker_with()).ask(CreateTopic(2, "n" * size))[-1])


def producers(count):
    return [Publish(2, "t", batch(b""), producer=1 + number) for number in range(count)]


def named_subscriptions(count):
    return [Subscribe(2 + number, "t", f"s{number}") for number in range(count)]


def bytes_of_a_subscriptions_name(_, __, size):
    return outcome(Conversation(broker_with()).ask(Subscribe(2, "t", "n" * size))[0])


def the_first_of_so_many_batches_again(_, __, count):
    """PUB-4: its answer is kept, as long as there are not too many after it."""
    client = Conversation(broker_with())
    client.tell(*[Publish(0, "t", batch(b""), producer=1, sequence=number) for number in range(count)])
    return outcome(client.ask(Publish(2, "t", batch(b""), producer=1, sequence=0))[-1])


# -- bytes of a connection -------------------------------------------------------------------------------------


def quiet_connection(**settings):
    """A connection that nobody runs, and its manager: what comes is applied, what is said stays there."""
    broker = broker_with(**settings)
    connection = Connection(None, broker, "somebody")
    (manager,) = broker.managers.values()
    return connection, manager, broker.clock


def answers(manager):
    return frames_of(manager.next_output(0))


def length_field(name, limit, amount, *, greeted=True):
    connection, manager, _ = quiet_connection(**({name: limit} if greeted else {}))
    if greeted:
        connection._take(encode(Hello(1)))
    connection._take(amount.to_bytes(4, "little"))
    last = answers(manager)[-1:]
    return outcome(last[0]) if last else FITS


def replies_before_the_next_request(name, limit, amount):
    connection, manager, _ = quiet_connection(**{name: limit})
    connection._take(encode(Hello(1)))
    manager.next_output(0)
    empty = len(encode(Error(0, 65, 0, "", 0, "")))
    manager.refuse(Refused(ErrorCode.UNSUPPORTED, "m" * (amount - empty)), 0, 0)
    assert manager.reply_bytes == amount
    is_all = connection._take(encode(CreateTopic(0, "t")))
    return FITS if is_all and len(connection._broker.registry) else WAITS


def bytes_before_the_next_message(name, limit, amount):
    client = Conversation(broker_with(**{name: limit}))
    frame_of_nothing = len(encode(Messages(2, 0, 0, batch(b""))))
    client.ask(Subscribe(2, "t", credit=9))
    client.tell(Publish(0, "t", batch(b"p" * (amount - frame_of_nothing))), Publish(0, "t", batch(b"")))
    return FITS if len(client.turn()) == 2 else WAITS


# -- time on the broker's clock --------------------------------------------------------------------------------


def seconds_until(begin, name, limit, amount, **settings):
    """Look once a second, and twice at the end: only who is overdue at two looks is cut off."""
    connection, manager, clock = quiet_connection(**{name: limit}, **settings)
    start = clock.now_us()
    begin(connection)
    manager.next_output(0)
    end = start + round(amount * 1_000_000)
    for moment in (*range(start, end, 1_000_000), end, end):
        connection.look(moment)
    said = answers(manager)
    return outcome(said[-1]) if said else FITS


def no_hello(connection):
    connection._take(b"")


def half_a_frame(connection):
    connection._take(encode(Hello(1)))
    connection._take(encode(Ping(2))[:-1])


def silence(connection):
    connection._take(encode(Hello(1, features=HEARTBEAT)))


def a_frame_at_that_rate(name, limit, amount):
    """Two seconds are allowed for anything; then a frame of 3 000 bytes comes at `amount` bytes a second."""

    def begin(connection):
        connection._take(encode(Hello(1)))
        connection._take((3_000 - 4).to_bytes(4, "little"))

    return seconds_until(begin, name, limit, 2 + 3_000 / amount, frame_timeout=2.0)


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
    """TOP-7: nobody uses the topic for so many seconds, from the first look that finds it so."""
    client = Conversation(broker_with(**{name: limit}))
    client.ask(Subscribe(2, "t"), Unsubscribe(3, 2))
    client.broker.sweep()
    client.broker.clock.advance(amount)
    client.broker.sweep()
    return FITS if len(client.broker.registry) else GONE


def back_after(name, limit, amount):
    """CMT-3: the reader is away for so many seconds, from the first look that finds it so."""
    client = Conversation(broker_with(**{name: limit}))
    client.ask(Subscribe(2, "t", "name"), Unsubscribe(3, 2))
    client.broker.sweep()
    client.broker.clock.advance(amount)
    client.broker.sweep()
    (subscribed,) = client.ask(Subscribe(4, "t", "name"))
    return FITS if subscribed.resumed else GONE


# -- what a topic holds ----------------------------------------------------------------------------------------


def messages_kept(name, limit, amount):
    client, topic = with_topic(name, limit)
    client.ask(*[Publish(0, "t", batch(b""))] * amount)
    return GONE if topic.ring.evicted else FITS


def messages_at_once(name, limit, amount):
    return outcome(with_topic(name, limit)[0].ask(*messages(amount))[-1])


def bytes_kept(name, limit, amount):
    client, topic = with_topic(name, limit)
    client.ask(Publish(0, "t", batch(b"")), Publish(0, "t", batch(b"p" * (amount - 40))))
    return GONE if topic.ring.evicted else FITS


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
    return GONE if topic.journal.topic.ring.evicted else FITS


# -- time that really passes, on trio's clock ------------------------------------------------------------------


class MemoryListener:
    """Accepts these streams, in this order, and no others."""

    host, port = "memory", 0

    def __init__(self, peers):
        self.peers = peers

    async def serve(self, handler, tasks):
        for peer in self.peers:
            tasks.start_soon(handler, peer.stream, "memory:0")
            await anyio.wait_all_tasks_blocked()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass


def simulated(story):
    """A probe: a story told to a server whose clock jumps to the next event whenever everybody waits."""

    def probe(name, limit, amount):
        async def tell():
            return await story(Broker(BrokerSettings(**{name: limit})), amount)

        return anyio.run(tell, backend="trio", backend_options={"clock": MockClock(autojump_threshold=0)})

    return probe


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


async def peer_that_reads_after(broker, seconds):
    """LAG-3: nothing of the Welcome is taken for so long."""
    peer = Peer(room=0)
    server = Server(broker, MemoryListener([peer]))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.run)
        await anyio.sleep(seconds)
        peer.read_on()
        peer.send_bytes(b"")
        server.stop()
    return FITS if broker.ends == {"CLOSED": 1} else GONE


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
        peer.end()
    said = frames_of([bytes(peer.stream.sent)])
    return FITS if [type(frame) for frame in said] == [Welcome, GoAway] else GONE
