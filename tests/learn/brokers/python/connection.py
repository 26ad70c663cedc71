"""One client's connection: bytes to frames, frames to requests, and replies and events back, in bounded room."""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import wire
from handlers import Requests
from subscription import Subscription
from wire import Body, Fault
from worker import Worker

if TYPE_CHECKING:
    from broker import Broker

EVENT_BYTES = 262_144  # unsent bytes above which no messages are taken for a connection
REPLY_BYTES = 262_144  # unsent replies above which nothing more is read from it
KERNEL_BYTES = 131_072  # what the system may hold besides: by itself it takes megabytes
HELLO_SECONDS = 10
FRAME_SECONDS = 60
STUCK_SECONDS = 10
LINGER_SECONDS = 1


class Connection(asyncio.Protocol):
    """Reads frames as they come and carries them out at once, unless replies pile up."""

    transport: asyncio.Transport

    def __init__(self, broker: "Broker") -> None:
        self.broker = broker
        self.number = 0
        self.client = ""
        self.greeted = False
        self.features = 0
        self.subscriptions: dict[int, Subscription] = {}
        self.last_subscription = 0
        self.buffer = bytearray()
        self.turn = asyncio.Lock()
        self.room = asyncio.Event()
        self.room.set()
        self.reply_bytes = 0  # of replies since there was room last
        self.done = False  # nothing more is carried out
        self.at_end = False  # the client has ended its side
        self.paused = False
        self.lost = False
        self.requests = 0
        self.heard = self.begun = self.moved = self.flushed = broker.seconds()
        self.written = self.progress = 0
        self.handlers: dict[int, Callable[[int, int, Body], bytes | None]] = Requests(self).table()

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BYTES)
        transport.set_write_buffer_limits(EVENT_BYTES, EVENT_BYTES // 4)
        self.broker.join(self)

    def data_received(self, data: bytes) -> None:
        self.heard = self.broker.seconds()
        if self.done:
            return
        if not self.buffer:
            self.begun = self.heard
        self.buffer += data
        self.process()

    def eof_received(self) -> bool:
        self.at_end = True
        self.process()
        return True

    def pause_writing(self) -> None:
        self.room.clear()

    def resume_writing(self) -> None:
        self.room.set()
        self.reply_bytes = 0
        self.process()

    def connection_lost(self, _exc: Exception | None) -> None:
        self.lost = True
        self.finish()
        self.broker.leave(self)

    # Sending.

    def send(self, kind: int, number: int, body: bytes = b"", flags: int = 0) -> None:
        self.write(wire.frame(kind, flags, number, body))

    def write(self, data: bytes) -> None:
        if not self.lost:
            self.written += len(data)
            self.transport.write(data)

    def reply(self, data: bytes) -> None:
        self.reply_bytes += len(data)
        self.write(data)

    def is_full(self) -> bool:
        return min(self.reply_bytes, self.transport.get_write_buffer_size()) > REPLY_BYTES

    # Ending.

    def end_subscriptions(self, *, is_lost: bool = False) -> None:
        was_alone = self.hand_size() == 1
        for subscription in self.subscriptions.values():
            if is_lost:
                subscription.lose(was_alone=was_alone)
            subscription.end()
            self.leave_name(subscription)
        self.subscriptions.clear()

    def leave_name(self, subscription: Subscription) -> None:
        session = subscription.session
        if session is not None and session.reader is subscription:
            session.reader = None
            session.gone_at = self.broker.seconds()

    # Its hand: what the workers of all shared names have here.

    def workers(self) -> list[Worker]:
        return [each for each in self.subscriptions.values() if isinstance(each, Worker)]

    def hand_size(self) -> int:
        return sum(len(worker.held) + len(worker.overdue) for worker in self.workers())

    def has_suspect(self) -> bool:
        return any(message.is_suspect for worker in self.workers() for message in worker.held.values())

    def finish(self) -> None:
        """All subscriptions end, and our side of the stream; what still comes is read and dropped for a second."""
        if self.done:
            return
        self.done = True
        self.end_subscriptions(is_lost=True)
        self.buffer.clear()
        self.room.set()
        if self.lost:
            return
        if self.paused:
            self.transport.resume_reading()
        if self.at_end:
            self.transport.close()
        else:
            self.transport.write_eof()

    def give_up(self, code: int, text: str) -> None:
        """An error that answers no request."""
        self.write(wire.error(Fault(code, "", text), 0, 0, fatal=True))
        self.finish()

    def go_away(self, code: int, text: str) -> None:
        self.end_subscriptions()
        self.send(wire.GO_AWAY, 0, struct.pack("<H", code) + wire.string(text))
        self.finish()

    # Reading.

    def process(self) -> None:
        """Carries out the requests that are here whole."""
        while not self.done and not self.is_full():
            try:
                request = self.next_frame()
            except Fault as fault:
                self.give_up(fault.code, fault.text)
                return
            if request is None:
                break
            self.begun = self.broker.seconds()
            self.carry_out(*request)
        if self.done:
            if self.at_end and not self.lost:
                self.transport.close()
            return
        full = self.is_full()
        if full != self.paused and not self.at_end:
            self.paused = full
            (self.transport.pause_reading if full else self.transport.resume_reading)()
        if self.at_end and not full:
            self.finish()

    def next_frame(self) -> tuple[int, int, int, int, bytes] | None:
        if len(self.buffer) < 4:
            return None
        (length,) = struct.unpack_from("<I", self.buffer)
        if length < 8:
            raise Fault(wire.MALFORMED, text="length is below 8")
        if length > (wire.MAX_FRAME if self.greeted else wire.MAX_HELLO):
            raise Fault(wire.FRAME_TOO_LARGE, text=f"{length} bytes are more than this broker takes")
        if len(self.buffer) < 4 + length:
            return None
        kind, flags, zero, number = struct.unpack_from("<BBHI", self.buffer, 4)
        body = bytes(self.buffer[12 : 4 + length])
        del self.buffer[: 4 + length]
        return kind, flags, zero, number, body

    def carry_out(self, kind: int, flags: int, zero: int, number: int, body: bytes) -> None:
        self.requests += 1
        first = not self.greeted
        try:
            self.check_header(kind, flags, zero)
            reply = self.handlers[kind](number, flags, Body(body))
        except Fault as fault:
            fatal = first or fault.code < wire.FIRST_HARMLESS
            self.reply(wire.error(fault, kind, number, fatal=fatal))
            if fatal:
                self.finish()
            return
        except Exception as bug:
            self.give_up(wire.INTERNAL, f"{type(bug).__name__}: {bug}")
            return
        if reply is not None and number != 0:
            self.reply(wire.frame(kind | wire.REPLY, reply[0], number, reply[1:]))
        if kind == wire.SUBSCRIBE:
            self.subscriptions[number].end_if_reached()
        elif kind == wire.CLOSE:
            self.finish()

    def check_header(self, kind: int, flags: int, zero: int) -> None:
        if zero:
            raise Fault(wire.MALFORMED, "zero", "bytes 6 and 7 are not 0")
        if not self.greeted and kind != wire.HELLO:
            raise Fault(wire.HELLO_REQUIRED, text="the first frame must be a Hello")
        if kind not in self.handlers:
            raise Fault(wire.UNSUPPORTED, "type", f"type {kind} is not known")
        if flags & ~wire.REQUEST_FLAGS[kind]:
            raise Fault(wire.UNSUPPORTED, "flags", "a flag bit that this type does not define")

    # Time.

    def watch(self, seconds: float) -> None:
        """A few times a second: ends what takes too long."""
        waiting = self.transport.get_write_buffer_size()
        if waiting == 0 or self.written - waiting != self.progress:
            self.progress, self.moved = self.written - waiting, seconds
        stuck = seconds - self.moved >= STUCK_SECONDS
        if waiting or not self.done:
            self.flushed = seconds
        if self.done:
            if stuck or seconds - self.flushed >= LINGER_SECONDS:
                self.transport.abort()
        elif stuck:
            self.moved += LINGER_SECONDS
            self.give_up(wire.SLOW_CONSUMER, "nothing was read for 10 seconds")
        elif not self.greeted and seconds - self.begun >= HELLO_SECONDS:
            self.give_up(wire.HANDSHAKE_TIMEOUT, "no complete Hello came")
        elif self.buffer and not self.paused and seconds - self.begun >= FRAME_SECONDS:
            self.give_up(wire.FRAME_TIMEOUT, "a frame was begun and not ended")
        elif self.features & wire.HEARTBEAT and not self.paused and seconds - self.heard >= wire.IDLE_MS / 1000:
            self.give_up(wire.IDLE_TIMEOUT, "the heartbeat that was promised did not come")

    def described(self) -> dict[str, Any]:
        return {
            "name": f"{self.number:020}",
            "connection": self.number,
            "peer": str(self.transport.get_extra_info("peername")),
            "client": self.client,
            "subscriptions": len(self.subscriptions),
            "in_flight": sum(s.in_flight for s in self.subscriptions.values()),
            "reply_bytes": min(self.reply_bytes, self.transport.get_write_buffer_size()),
            "requests": self.requests,
        }
