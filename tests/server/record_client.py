"""Records what the client of the installed zaichik and its broker say to each other.

    git archive v0.3.0 | tar -x -C /tmp/that
    PYTHONPATH=/tmp/that:/tmp/that/protocol python tests/server/record_client.py 0.3.0

It writes `former_client_0.3.0.txt` beside itself. `test_former_client.py` has the client say the
same to the broker of today. So only the public interface is used here, and the codec to name the
frames: this has to run with the zaichik of that version. (`former_client_0.1.0.txt` was recorded by
an earlier version of this program, before brokers had most of what is asked for here.)

The clock is one that stands still, so that numbers which begin at its reading, such as tickets, are
the same when the bytes are played back.
"""

import inspect
import sys
import textwrap
from contextlib import asynccontextmanager, suppress
from dataclasses import fields
from pathlib import Path

import anyio

from zaichik import InvalidField, ManualClock, connect, running_broker
from zaichik_protocol import FrameDecoder

START_US = 1_700_000_000_000_000
HERE = Path(__file__).parent
WIDTH = 120
HEADER_BYTES = 12
HEX_DIGITS = 110
UNSHOWN = {"id", "magic", "batch", "json"}  # what the bytes below a frame's name say better
ABOUT = """\
What a client of zaichik {version} and its broker said to each other: test_former_client.py has
the same client talk to today's broker.

Recorded by record_client.py on both sides of a relay, which cut the two streams into frames. The
broker's clock stood at {start}. The client's program was, beside the relay, all of this:

{program}
">" is a frame of the client's, "<" one of the broker's; "#" says what it is. The first five numbers
are the header (length, type, flags, zero, id), then comes the body, all in hex. JSON is text: its
lines are joined by a space.
"""


async def talk(client):
    await client.create_topic("orders", retention_ttl="forever")
    await client.publish("orders", b"two apples", key="alice")
    await client.publish_batch("orders", [("bob", b"three pears"), (None, b"a plum")])
    async with client.subscribe("orders", name="billing", credit=4) as subscription:
        async for message in subscription:
            if message.offset == 2:
                await subscription.commit(message)
                break
        await subscription.forget()
    async with client.subscribe("orders", start=1, until=2, credit=1) as subscription:
        async for _ in subscription:
            pass

    await client.create_topic("prices", table=True, tombstones=3600)
    await client.publish("prices", b"3", key="apple")
    await client.publish("prices", b"5", key="pear")
    await client.publish("prices", b"4", key="apple")
    await client.publish("prices", None, key="pear")
    async with client.subscribe("prices", until=4) as subscription:
        async for _ in subscription:
            pass

    await client.create_topic("jobs", retention_ttl="forever")
    await client.publish_batch("jobs", [(None, b"job %d" % number) for number in range(4)])
    how = {"name": "thumbs", "shared": True, "credit": 4, "max_deliveries": 1}
    async with client.subscribe("jobs", **how) as work:
        for settle in ("done", "reject", "retry", "done"):
            message = await anext(work)
            await getattr(message, settle)()
    await client.dead("jobs", "thumbs")
    await client.revive("jobs", "thumbs", [1])
    await client.forget_dead("jobs", "thumbs")
    await client.forget_name("jobs", "thumbs")

    await client.advance_clock(60)
    await client.explain("orders", offset=1)
    await client.describe()
    await client.topics()
    await client.subscriptions()
    with suppress(InvalidField):  # there is no connection of that number
        await client.disconnect(4711)
    await client.delete_topic("jobs")
    await client.ping()


class Recorder:
    """Two streams, cut into frames."""

    def __init__(self):
        self.frames = []  # who said it, its bytes, and the frame
        self._decoders = {">": FrameDecoder.for_broker(), "<": FrameDecoder.for_client()}
        self._unread = {">": bytearray(), "<": bytearray()}

    def receive(self, who, data):
        """Take what came from one side."""
        unread = self._unread[who]
        unread.extend(data)
        while len(unread) >= 4:
            size = 4 + int.from_bytes(unread[:4], "little")
            if len(unread) < size:
                break
            whole = bytes(unread[:size])
            del unread[:size]
            self._decoders[who].receive_data(whole)
            self.frames.append((who, whole, self._decoders[who].next_frame()))
            if len(self.frames) == 1:
                self._decoders[">"].greeted(1 << 20)


@asynccontextmanager
async def relay(broker_port, recorder):
    """Serves one connection at a port, which is the value, and passes it on to the broker."""

    async def copy(who, source, sink):
        try:
            async for data in source:
                recorder.receive(who, data)
                await sink.send(data)
            await sink.send_eof()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the other side has ended at the same time

    async def passed_on(inside):
        async with (
            inside,
            await anyio.connect_tcp("127.0.0.1", broker_port) as outside,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(copy, ">", inside, outside)
            tasks.start_soon(copy, "<", outside, inside)

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, passed_on)
        yield listener.extra(anyio.abc.SocketAttribute.local_port)
        tasks.cancel_scope.cancel()


async def record():
    """Returns the frames of the conversation."""
    recorder = Recorder()
    async with (
        running_broker(clock=ManualClock(START_US)) as broker,
        relay(broker.port, recorder) as port,
        connect(port=port, reconnect=0) as client,
    ):
        await talk(client)
    return recorder.frames


def described(frame):
    """Returns a frame's name and fields."""
    shown = []
    for field in fields(frame):
        value = getattr(frame, field.name)
        # Most frames have few of the fields that their kind may have: zeros are left out.
        if field.name in UNSHOWN or not value:
            continue
        shown.append(f"{field.name}={value!r}")
    return f"{type(frame).__name__}: {', '.join(shown)}" if shown else type(frame).__name__


def lines(who, data, frame):
    """Yield how a frame is written down."""
    yield from filled(described(frame), "# ", "#   ")
    length, kind, flags, zero, number = (
        data[start:end].hex() for start, end in ((0, 4), (4, 5), (5, 6), (6, 8), (8, HEADER_BYTES))
    )
    yield f"{who} {length} {kind} {flags} {zero} {number}"
    text = getattr(frame, "json", b"")
    yield from textwrap.wrap(
        data[HEADER_BYTES : len(data) - len(text)].hex(),
        HEX_DIGITS,
        initial_indent="  ",
        subsequent_indent="  ",
    )
    if text:
        yield from filled(text.decode(), "  ", "  ")
    yield ""


def filled(text, first, later):
    """Returns lines that break at a space and nowhere else, so that joining them is exact."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )


def main(version):
    """Write the file."""
    frames = anyio.run(record)
    program = textwrap.indent(
        textwrap.dedent(inspect.getsource(talk).partition("\n")[2]), "    ", lambda _: True
    )
    about = ABOUT.format(version=version, start=START_US, program=program)
    text = [f"# {line}".rstrip() for line in about.splitlines()]
    text += ["", *(line for frame in frames for line in lines(*frame))]
    (HERE / f"former_client_{version}.txt").write_text("\n".join(text), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
