"""Pictures of a ring and its readers, drawn by the functions that `zaichik watch` draws with.

`make docs` writes docs/pictures/ring.svg: a reader falls behind, loses messages, and is told. Each picture is a
history on the broker's own code, with a clock that is set, so it comes out the same each time; a test says so.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from picture_svg import strip_width, svg

from zaichik.apps.views.memory import Memory
from zaichik.apps.views.picture import Picture, picture
from zaichik.apps.views.topic_state import TopicState
from zaichik.base.clock import ManualClock
from zaichik.base.counted import counted
from zaichik.core.broker import Broker
from zaichik.core.subscription_manager import SubscriptionManager
from zaichik_protocol import (
    NEED_DATA,
    Batch,
    Commit,
    CreateTopic,
    Describe,
    Described,
    Frame,
    FrameDecoder,
    Hello,
    Kind,
    Messages,
    Publish,
    Setting,
    Start,
    Subscribe,
)

PATH = Path(__file__).parents[2] / "docs" / "pictures" / "ring.svg"
WIDTH, CAPACITY, CREDIT, STEPS = 760, 8, 3, 24
STOPS, GOES_ON = 4, 17  # steps at which the slow reader stops, and goes on
START_US, STEP_US = 946_684_800_000_000, 250_000
TOPIC = "orders"


class Client:
    """A client without a socket."""

    def __init__(self, broker: Broker, name: str) -> None:
        self._broker = broker
        self._manager: SubscriptionManager = broker.connect(lambda: None)
        self._decoder = FrameDecoder.for_client()
        self.ask(Hello(1, client=name))

    def ask(self, *frames: Frame) -> list[Frame]:
        """Send these, and return what comes."""
        for frame in frames:
            self._manager.apply(frame, self._broker.clock.now_us())
        while pieces := self._manager.next_output(self._broker.clock.now_us()):
            for piece in pieces:
                self._decoder.receive_data(piece)
        return [frame for frame in iter(self._decoder.next_frame, NEED_DATA) if isinstance(frame, Frame)]


class Ring:
    """A topic on a broker of its own, and what was seen of it."""

    def __init__(self, capacity: int) -> None:
        self._clock, self._memory = ManualClock(START_US), Memory()
        self._broker = Broker(clock=self._clock)
        self._publisher = Client(self._broker, "publisher")
        settings = (Setting.CAPACITY, capacity), (Setting.RETENTION_TTL_MS, 2**64 - 1)
        self._publisher.ask(CreateTopic(1, TOPIC, settings))

    def reader(self, name: str, credit: int) -> Client:
        """Returns a client that reads the topic from its beginning."""
        reader = Client(self._broker, name)
        reader.ask(Subscribe(2, TOPIC, start=Start.EARLIEST, credit=credit))
        return reader

    def publish(self, payload: bytes) -> None:
        """Store one message."""
        self._publisher.ask(Publish(2, TOPIC, Batch.of([(b"", payload)])))

    def picture(self) -> Picture:
        """Returns the picture of this moment; the next one is a quarter of a second later."""
        self._clock.move_to(self._clock.now_us() + STEP_US)
        pages: dict[str, Any] = {}
        for kind in (Kind.TOPICS, Kind.FURTHEST, Kind.MARKS):
            for reply in self._publisher.ask(Describe(3, kind, TOPIC, "", 16)):
                pages |= json.loads(reply.json) if isinstance(reply, Described) else {}
        state = TopicState.of({**pages, "boot": 1, "topic": pages["topics"][0], "readers": pages["subscriptions"]})
        self._memory.seen(state)
        return picture(state, self._memory, strip_width(WIDTH), "ring")


def states() -> Iterator[tuple[Picture, str]]:
    """Yields each state, with what happens in words."""
    ring = Ring(CAPACITY)
    readers = {name: ring.reader(name, CREDIT) for name in ("slow", "quick")}
    cursors: dict[str, int] = {}
    for step in range(STEPS):
        ring.publish(b"%d" % step)
        for name, reader in readers.items():
            came = reader.ask()
            if name == "quick" or not STOPS <= step < GOES_ON:
                came += reader.ask(Commit(0, 2, cursors.get(name, 0)))
            for frame in came:
                if isinstance(frame, Messages):
                    cursors[name] = frame.base + frame.batch.count
        drawn = ring.picture()
        yield drawn, _caption(step, drawn)


def _caption(step: int, drawn: Picture) -> str:
    slow = next(lane for lane in drawn.lanes if lane.label == "slow")
    marks = {mark.kind: mark.text for mark in drawn.marks if mark.lane == slow.name}
    if "told" in marks:
        return f"slow commits, is told that it missed {counted(int(marks['told']), 'message')}, and reads on"
    if "lost" in marks:
        return f"the ring is full: {counted(int(marks['lost']), 'message')} went before slow read them"
    if "gate" in marks:
        return "slow has stopped: until it commits, nothing more is sent to it"
    return "a message is stored once; a reader is a number"


def draw() -> str:
    """Returns the picture that moves."""
    return svg([*states()], WIDTH)


def still(capacity: int, published: int, credit: int, caption: str, **readers: tuple[int, int]) -> str:
    """Returns one moment: of each reader, how many messages were delivered to it, and how many it has committed."""
    ring = Ring(capacity)
    clients = {name: ring.reader(name, credit) for name in readers}
    for offset in range(published):
        ring.publish(b"x")
        for name, (delivered, committed) in readers.items():
            if offset < delivered:
                clients[name].ask()
            if offset < committed:
                clients[name].ask(Commit(0, 2, offset + 1))
        drawn = ring.picture()  # each time, or nobody would have seen what was evicted
    return svg([(drawn, caption)], WIDTH)


if __name__ == "__main__":
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text(draw(), encoding="utf-8")
