"""A reader that does not read, and its backlog in the broker: messages and replies.

If a broker loses what it has not sent yet when a connection ends, it loses it here.
"""

import anyio

from zaichik.learn import causes, wire
from zaichik.learn.connection import Connection
from zaichik.learn.failure import Failure
from zaichik.learn.layouts import FOREVER, LEAST, TTL
from zaichik.learn.trial import Trial
from zaichik.learn.wire import Frame

# Between two programs on one machine the kernel buffers about 4 MiB: of 8 MiB, the others wait in
# the broker.
CHUNK, CHUNKS = bytes(LEAST["max_message"]), 32
ASKED, ASK = 100, 77  # requests, and their id
# Until the sockets are full, or the first replies would go out with the last messages.
FILLS_S = 0.2
LONG = 5  # of so many requests all but one have long replies


async def pile_up(trial: Trial, reader: Connection, helper: Connection, label: str = "") -> int:
    """Publish more than sockets hold; then send the reader's requests, whose replies also wait.

    Returns:
        the reader's subscription.
    """
    topic, mark = trial.topic(f"{label}backlog"), trial.topic(f"{label}mark")
    await helper.create(topic, {TTL: FOREVER})
    marks = await helper.subscribe(mark)
    subscription = await reader.subscribe(topic, credit_bytes=2**32 - 1)
    for offset in range(CHUNKS):
        await helper.publish(topic, (b"", CHUNK), first_offset=offset)
    await anyio.sleep(FILLS_S)
    silent = wire.encode("Publish", frame_id=0, topic=mark, batch=[(b"", b"")])
    await reader.send_bytes(requests(0, ASKED, topic) + silent, "requests, then a mark")
    await helper.expect_messages(marks, 0, [(b"", b"")])
    return subscription


def requests(first: int, end: int, topic: str) -> bytes:
    """Requests with these numbers: Pings that carry them, and others with longer replies."""
    others = wire.encode("CreateTopic", frame_id=ASK, topic=topic)
    return b"".join(
        others if number % LONG else wire.encode("Ping", frame_id=ASK, value=number)
        for number in range(first, end)
    )


async def clear(reader: Connection, subscription: int, replies: int) -> tuple[Frame | None, int]:
    """Read the backlog: at least this many replies, in order, and messages without a gap.

    Returns:
        the first frame that is neither, None at the end of the stream; and how many messages came.
    """
    number = offset = 0
    while frame := await _read(reader, f"reply {number}" if number < replies else "the end"):
        if frame.name == "Messages":
            reader.must_be(frame, "Messages", id=subscription, base=offset)
            offset += len(frame.messages)
        elif number < replies or frame.id == ASK:
            fields = {} if number % LONG else {"value": number}
            reader.must_be(frame, "TopicCreated" if number % LONG else "Pong", id=ASK, **fields)
            number += 1
        else:
            break
    if frame is None and number < replies:
        await reader.read(awaited=f"reply {number}")
    return frame, offset


async def _read(reader: Connection, awaited: str) -> Frame | None:
    """The next frame; None if the server has ended its side cleanly, between two frames."""
    try:
        return await reader.read(awaited=awaited)
    except Failure as failed:
        if failed.cause == causes.ENDED and failed.came == "nothing":
            return None
        raise
