"""A broker that is recorded: it does what any `Broker` does, and every call from outside is written down.

The seam is between serving and broker. What a server and its connections do to a broker are calls of the `Broker`, of a
`SubscriptionManager`, and of the `Quota` that counts what connections hold. Here are subclasses of these three, so a
broker without a recorder pays nothing: there is no branch in it. Calls that the broker makes of itself are no input.
`Tape.depth` tells them apart: it is not 0 while a recorded call runs, except while `on_output` does, in which the
scheduler may give turns.

A call is written before it is carried out, and its output after it: the request that ends a process is recorded.
"""

from collections.abc import Callable, Collection
from dataclasses import asdict, replace
from hashlib import blake2b
from secrets import token_bytes
from zlib import crc32

from zaichik.broker.broker import Broker
from zaichik.broker.clock import Clock, ManualClock
from zaichik.broker.rights import ANYBODY, Action, User
from zaichik.broker.settings import BrokerSettings
from zaichik.broker.subscription_manager import SubscriptionManager
from zaichik.build import build
from zaichik.flight.format import CHECK, CHECKED_IF_MASKED, HOLD, OUTPUT, RECORD, Kind, header, packed
from zaichik.observing.describe import resident_bytes
from zaichik.sharing.quota import Quota
from zaichik.sharing.scheduler import Scheduler, Turns
from zaichik_protocol import Batch, Frame, Hello, Publish, Refused, encode_pieces

CHUNK = 128 * 1024  # bytes that are written at once; a sweep, once a second, writes what there is
FRAME, SENT, HELD = int(Kind.FRAME), int(Kind.OUTPUT), int(Kind.HOLD)  # those that come all the time
Call = Callable[[], None]
Write = Callable[[bytes], bool]  # takes some whole records; returns whether it can take more


def checked(pieces: list[bytes], most: int | None) -> tuple[int, int]:
    """Returns the checksum and the bytes of output; of each piece, only so many bytes count. None means all."""
    data = b"".join(pieces if most is None else [piece[:most] for piece in pieces])
    return crc32(data), len(data)


class Tape:
    """The recording while it is made.

    Attributes:
        depth: how many calls are running, one inside the other; `with` a tape, it is one more.
        most: bytes of each piece of output that are checked; None, that is all, unless payloads are masked.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.most: int | None = None
        self._write: Write | None = None
        self._key = token_bytes(32)  # of fillers: so that nobody can try which payloads these may have been
        self._pieces: list[bytes] = []
        self._size = self._crc = 0  # bytes of these; checksum up to here

    def begin(self, write: Write, about: dict[str, object], *, is_masked: bool) -> None:
        """Begin with the header; see `RecordedBroker.begin`."""
        self._write, self.most = write, CHECKED_IF_MASKED if is_masked else None
        data, self._crc = header(about | {"checked": self.most})
        self._pieces.append(data)

    def note(self, kind: int, number: int, payload: bytes = b"", now_us: int = 0, rest: bytes = b"") -> None:
        """Write a record; its payload may be in two pieces, so that a batch is not copied."""
        if self._write is None:
            return
        size = len(payload) + len(rest)
        head = RECORD.pack(size, kind, number, now_us)
        self._crc = crc = crc32(rest, crc32(payload, crc32(head, self._crc)))
        self._pieces += (head, payload, rest, CHECK.pack(crc))
        self._size += RECORD.size + size
        if self._size >= CHUNK:
            self.flush()

    def call(self, kind: int, number: int, payload: bytes = b"", now_us: int = 0) -> "Tape":
        """Write a call if it comes from outside. Returns the context in which to carry it out."""
        if not self.depth:
            self.note(kind, number, payload, now_us)
        return self

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1

    def outside(self, call: Call) -> Call:
        """Returns a function that makes that call, out of the broker."""

        def make() -> None:
            depth, self.depth = self.depth, 0
            try:
                call()
            finally:
                self.depth = depth

        return make

    def frame(self, number: int, request: Frame, now_us: int) -> None:
        """Write a request, without what is not recorded."""
        if isinstance(request, Hello):
            request = replace(request, user="", secret="")  # people type secrets where a name belongs
        elif self.most is not None and isinstance(request, Publish):
            fillers = [self._filler(payload) for payload in request.batch.payloads()]
            request = replace(request, batch=Batch.of_columns(request.batch.keys(), fillers))
        pieces = encode_pieces(request)
        self.note(FRAME, number, pieces[0], now_us, pieces[1] if len(pieces) > 1 else b"")

    def _filler(self, payload: bytes) -> bytes:
        """Returns as many bytes; they only tell which payloads are the same."""
        digest = blake2b(payload, key=self._key).digest()
        return (digest * (len(payload) // len(digest) + 1))[: len(payload)]

    def flush(self) -> None:
        """Have all that there is written."""
        if self._write is not None and not self._write(b"".join(self._pieces)):
            self._write = None
        self._pieces, self._size = [], 0

    def end(self) -> None:
        """Write the last record."""
        self.note(Kind.END, 0)
        self.flush()
        self._write = None


class RecordedUser:
    """A user; it is written down which rights were found.

    Args:
        user: whose they are.
        number: the connection's.
        tape: the recording.
    """

    publishable: Collection[str] = ()  # `may` is always asked

    def __init__(self, user: User, number: int, tape: Tape) -> None:
        self.name, self.how, self.denied, self.is_ended = user.name, user.how, user.denied, user.is_ended
        self._may, self._number, self._tape = user.may, number, tape

    def may(self, action: Action, topic: str) -> bool:
        """See `User`."""
        answer = self._may(action, topic)
        self._tape.note(Kind.RIGHT, self._number, packed(action, topic, answer))
        return answer


class RecordedQuota(Quota):
    """A quota from which connections take what they hold."""

    def __init__(self, limit: int, tape: Tape) -> None:
        super().__init__(limit)
        self._tape = tape

    def take(self, client: str, amount: int = 1) -> None:
        """See `Quota`."""
        if not self._tape.depth:
            self._tape.note(HELD, 0, HOLD.pack(amount) + client.encode())
        super().take(client, amount)


class RecordedManager(SubscriptionManager):
    """A connection whose conversation is recorded. Its methods are those of `SubscriptionManager`."""

    def __init__(self, broker: "RecordedBroker", number: int, on_output: Call, peer: str, share: str) -> None:
        self._tape = broker.tape
        super().__init__(broker, number, broker.tape.outside(on_output), peer, share)

    def apply(self, request: Frame, now_us: int) -> None:
        """See above."""
        self._tape.frame(self.number, request, now_us)
        with self._tape:
            super().apply(request, now_us)

    def next_output(self, now_us: int) -> list[bytes]:
        """See above."""
        tape, found = self._tape, b""
        try:
            with tape:
                pieces = super().next_output(now_us)
            found = OUTPUT.pack(*checked(pieces, tape.most))
        finally:
            tape.note(SENT, self.number, found, now_us)
        return pieces

    def refuse(self, refusal: Refused, request_id: int, request_type: int) -> None:
        """See above."""
        said = packed(refusal.code.value, refusal.message, refusal.field, request_id, request_type)
        with self._tape.call(Kind.REFUSE, self.number, said):
            super().refuse(refusal, request_id, request_type)

    def restrict(self) -> None:
        """See above."""
        with self._tape.call(Kind.CALL, self.number, packed("restrict")):
            super().restrict()

    def recheck(self, now_us: int, *, rights: bool) -> None:
        """See above. It is recorded if it may change anything: it comes once a second."""
        if (is_ended := self.user.is_ended(now_us)) or rights:
            with self._tape.call(Kind.RECHECK, self.number, packed(rights, is_ended), now_us):
                super().recheck(now_us, rights=rights)

    def drop_replies(self) -> None:
        """See above."""
        with self._tape.call(Kind.CALL, self.number, packed("drop_replies")):
            super().drop_replies()

    def note_unsent(self, size: int) -> None:
        """See above. It is recorded if it changes anything: it comes with every output."""
        if size != self.unsent:
            with self._tape.call(Kind.CALL, self.number, packed("note_unsent", size)):
                super().note_unsent(size)

    def stop(self) -> None:
        """See above."""
        with self._tape.call(Kind.CALL, self.number, packed("stop")):
            super().stop()

    def end(self, reason: str) -> None:
        """See above."""
        with self._tape.call(Kind.CALL, self.number, packed("end", reason)):
            super().end(reason)

    def close(self) -> None:
        """See above."""
        with self._tape.call(Kind.CALL, self.number, packed("close")):
            super().close()


class RecordedBroker(Broker):
    """A broker that is recorded. It has no durable topics: what their disk answers is not in a recording.

    Args:
        settings, clock, scheduler: see `Broker`, and so the methods.

    Attributes:
        tape: see `Tape`.
    """

    def __init__(self, settings: BrokerSettings, clock: Clock, scheduler: Scheduler | None = None) -> None:
        self.tape = Tape()
        super().__init__(settings, clock, scheduler, memory=RecordedQuota(settings.max_client_bytes, self.tape))
        self.resident = self._shown

    def begin(self, write: Write, *, is_masked: bool = False) -> None:
        """Begin the recording, before anybody connects.

        Args:
            write: takes some whole records, about once a second or more often; returns whether it can take more.
            is_masked: payloads are replaced by fillers of the same length, the same for the same payload.
        """
        about = {"broker": self.name, "build": build(), "boot": self.boot, "begun_us": self.clock.now_us()}
        about |= {"is_manual": isinstance(self.clock, ManualClock), "settings": asdict(self.settings)}
        self.tape.begin(write, about, is_masked=is_masked)

    def _shown(self) -> int | None:
        found = resident_bytes()
        self.tape.note(Kind.SHOWN, 0, packed(found, self.ends, self.access))
        return found

    def new_manager(self, number: int, on_output: Call, peer: str, share: str) -> SubscriptionManager:
        """See above."""
        return RecordedManager(self, number, on_output, peer, share)

    def waive(self, may_read: Callable[[str, str], bool]) -> None:
        """See above."""
        denied: list[tuple[str, str]] = []

        def asked(user: str, topic: str) -> bool:
            if not (answer := may_read(user, topic)):
                denied.append((user, topic))
            return answer

        super().waive(asked)
        self.tape.note(Kind.WAIVE, 0, packed(denied))

    def connect(self, on_output: Call, peer: str = "", share: str = "") -> SubscriptionManager:
        """See above."""
        with self.tape.call(Kind.CONNECT, self._connections + 1, packed(peer, share), self.clock.now_us()):
            return super().connect(on_output, peer, share)

    def log_in(self, manager: SubscriptionManager, user: User, turns: Turns) -> Turns:
        """See above."""
        if user is ANYBODY:
            return turns
        with self.tape.call(Kind.LOG_IN, manager.number, packed(user.name)):
            return super().log_in(manager, RecordedUser(user, manager.number, self.tape), turns)

    def disconnect(self, manager: SubscriptionManager, reason: str) -> None:
        """See above."""
        with self.tape.call(Kind.DISCONNECT, manager.number, packed(reason, manager.reason), self.clock.now_us()):
            super().disconnect(manager, reason)

    def sweep_at(self, now_us: int) -> None:
        """See above."""
        with self.tape.call(Kind.SWEEP, 0, b"", now_us):
            super().sweep_at(now_us)
        self.tape.flush()
