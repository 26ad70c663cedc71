"""A client without a socket: requests in, the frames that a connection would send out."""

from collections import deque

from zaichik.base.clock import ManualClock
from zaichik.core.broker import Broker
from zaichik.core.settings import BrokerSettings
from zaichik_protocol import NEED_DATA, Batch, FrameDecoder, Hello


def batch(*messages):
    """A batch of payloads and (key, payload) pairs."""
    return Batch.of(
        [message if isinstance(message, tuple) else (b"", message) for message in messages]
    )


def broker_with(scheduler=None, **settings):
    return Broker(BrokerSettings(**settings), ManualClock(1_000), scheduler)


def frames_of(pieces):
    """What a client reads in these pieces."""
    decoder = FrameDecoder.for_client()
    for piece in pieces:
        decoder.receive_data(piece)
    return list(iter(decoder.next_frame, NEED_DATA))


class Conversation:
    def __init__(self, broker, *, greeted=True, client=""):
        self.broker = broker
        self.outputs = 0
        self.manager = broker.connect(self._on_output, client=client)
        self._decoder = FrameDecoder.for_client()
        self._unread = deque()
        if greeted:
            self.ask(Hello(1, client="somebody"))

    def _on_output(self):
        self.outputs += 1

    def tell(self, *requests):
        self._unread.extend(requests)
        self._apply()

    def _apply(self):
        """Like a connection: what follows a request whose reply keeps its place waits for that."""
        while self._unread and not self.manager.replies.must_wait:
            self.manager.apply(self._unread.popleft(), self.broker.clock.now_us())

    def turn(self):
        """The frames of one turn."""
        self._apply()
        for piece in self.manager.next_output(self.broker.clock.now_us()):
            self._decoder.receive_data(piece)
        return list(iter(self._decoder.next_frame, NEED_DATA))

    def heard(self):
        """The frames of all turns there are."""
        frames = []
        while more := self.turn():
            frames += more
        return frames

    def ask(self, *requests):
        self.tell(*requests)
        return self.heard()
