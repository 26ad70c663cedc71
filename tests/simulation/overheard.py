"""How our own client gets into the simulated world: over a socket that is overheard, with time and
dice from there.

Nothing is changed in the client. It asks for a connection to a host and a port and gets one to the
simulated broker; the host's name is that of the actor who uses it. What it sends is read where it
enters the socket, so each of its connections has the same book as one of a raw client, and so the
broker is held to its promises here, too. What the client makes of it all, and tells its user, is
judged by `our_client`.

After any frame, whichever way it went, the connection may be cut: often that is between a request
and its answer.
"""

from contextlib import ExitStack, contextmanager
from functools import partial
from unittest.mock import patch

import anyio
import trio

import zaichik.client.client
from zaichik.client import publishing, sequencer, transport
from zaichik.net.socket_stream import SocketStream
from zaichik_protocol import (
    NEED_DATA,
    Commit,
    ErrorCode,
    FrameDecoder,
    Hello,
    ProtocolError,
    Publish,
    Subscribe,
)

from .connection_ledger import ConnectionLedger
from .network import RECEIVE_BYTES, SimulatedSocket
from .publisher import FULL
from .topic_ledger import SentBatch
from .trace import Anomaly

# What the client may be refused without its user being told: it tries again.
MAY_FAIL = {
    Publish: FULL,
    Commit: {ErrorCode.NOT_IN_FLIGHT},  # what was delivered before a cut and not yet again
}
# And what a topic in memory is refused after a restart, of which its user is told.
MAY_BE_LOST = {
    Publish: {ErrorCode.PRODUCER_UNKNOWN},
    Subscribe: {ErrorCode.EPOCH_CHANGED},
    Commit: {ErrorCode.NO_SUCH_SUBSCRIPTION},
}
CUT_AFTER_FRAME = 0.03  # how likely
COMMIT_SECONDS = (
    1.0  # instead of 0.1: whole minutes pass here, and a commit that has no news costs time, too
)


class OverheardSocket(SimulatedSocket):
    """The client's end: what goes through it is written into a book.

    Args:
        incoming, outgoing, number: see `SimulatedSocket`.
        book: the `ConnectionLedger`.
        on_frame: called after each frame, of either side.
    """

    def __init__(self, incoming, outgoing, number, book, on_frame):
        super().__init__(incoming, outgoing, number)
        self._book = book
        self._on_frame = on_frame
        self._decoder = FrameDecoder.for_broker()
        self._read = {}  # topics, by subscription

    def send_nowait(self, data):
        size = super().send_nowait(data)
        with self._judging():
            self._decoder.receive_data(bytes(data[:size]))
            while (frame := self._decoder.next_frame()) is not NEED_DATA:
                self._overhear(frame)
        return size

    def _overhear(self, request):
        world, batch = self._book.world, None
        if isinstance(request, Hello):
            self._decoder.greeted(world.settings.max_frame)
        elif isinstance(request, Publish):
            batch = _batch_of(request, world.topics[request.topic])
        self._book.ask(request, expects=self._expected(request), batch=batch)
        self._on_frame(self)

    def _expected(self, request):
        """What it may be refused."""
        world = self._book.world
        if isinstance(request, Subscribe):
            self._read[request.id] = request.topic
        topic = (
            self._read.get(request.subscription)
            if isinstance(request, Commit)
            else getattr(request, "topic", None)
        )
        is_lost = world.life.boot > 1 and topic and not world.topics[topic].is_durable
        return MAY_FAIL.get(type(request), set()) | (
            MAY_BE_LOST.get(type(request), set()) if is_lost else set()
        )

    async def receive(self, max_bytes=RECEIVE_BYTES):
        try:
            data = await super().receive(max_bytes)
        except anyio.EndOfStream:
            with self._judging():
                self._book.hear_the_end()
            raise
        with self._judging():
            for _ in self._book.hear(data):  # what it says is the client's business
                self._on_frame(self)
        return data

    @contextmanager
    def _judging(self):
        """An anomaly ends the world; the client would take it for an error of its own."""
        try:
            yield
        except Anomaly as anomaly:
            self._book.world.fail(anomaly)
        except ProtocolError as error:
            self._book.world.fail(
                Anomaly("ERR", f"{self._book.name} says what nobody understands: {error}")
            )


def _batch_of(publish, topic):
    """What the ledger knows as this batch, if it was sent before.

    Raises:
        Anomaly: another one was sent with its first message; the broker would not notice (PUB-4).
    """
    messages = list(zip(publish.batch.keys(), publish.batch.payloads(), strict=True))
    known = topic.sent_batch(messages[0][1])
    if known and known.messages != messages:
        raise Anomaly("P3", f"{topic.name}: a batch is sent again, and is another one: {publish}")
    return known or SentBatch(messages, len(publish.batch.data), publish.producer, publish.sequence)


@contextmanager
def clients_live_in(world, tasks):
    """As long as the block lasts, our clients connect to the simulated broker; `tasks` are to cut
    them off.
    """
    random = world.random("our clients")

    def cut_some(socket):
        if random.random() < CUT_AFTER_FRAME:
            tasks.start_soon(_cut, socket, random.choice([0, 0.001, 0.1]))

    async def connect(host, _port):
        await trio.lowlevel.checkpoint()
        book = ConnectionLedger(world, host)
        kind = partial(OverheardSocket, book=book, on_frame=cut_some)
        socket = world.connect(random, world.weather(random), book, kind)
        tasks.start_soon(_cut, socket, world.cut_after(random))
        return socket

    backoff = partial(transport.backoff, random=random.random)
    with ExitStack() as patches:
        for place, name, instead in (
            (SocketStream, "connect", connect),
            (transport, "backoff", backoff),
            (sequencer, "backoff", backoff),
            (sequencer.secrets, "randbelow", random.randrange),
            (
                zaichik.client.client,
                "Publishing",
                partial(publishing.Publishing, clock=trio.current_time),
            ),
            (zaichik.client.client, "COMMIT_SECONDS", COMMIT_SECONDS),
        ):
            patches.enter_context(patch.object(place, name, instead))
        yield


async def _cut(socket, seconds):
    await trio.sleep(seconds)
    socket.cut()
