"""A topic of the model: a list of messages, each with its fate. See `model`."""

from copy import deepcopy
from dataclasses import dataclass, field

from zaichik_protocol import FOREVER, ErrorCode, Published, Start

RESIDENT, EXPIRED, EVICTED = "resident", "expired", "evicted"


class ModelError(Exception):
    """A request the model refuses: only what a program would read."""

    def __init__(self, code, field=""):
        super().__init__(code, field)
        self.code = code
        self.field = field


@dataclass
class Message:
    key: bytes
    payload: bytes
    accepted_us: int
    batch: int  # number of the stored batch it came in
    fate: str = RESIDENT
    cause: str = ""  # of an eviction: the setting that has no room for it

    @property
    def size(self):
        return len(self.key) + len(self.payload)


def wire_bytes(pairs):
    """Bytes of the batch of these (key, payload) pairs: a count, two rows of offsets, strings."""
    return 4 + 2 * 4 * (len(pairs) + 1) + sum(len(key) + len(payload) for key, payload in pairs)


@dataclass(eq=False)
class ModelTopic:
    name: str
    epoch: int
    settings: dict
    explicit: bool
    messages: list = field(
        default_factory=list
    )  # all that were ever stored: the offset is the index
    batches: list = field(default_factory=list)  # wire bytes of each stored batch
    windows: list = field(default_factory=list)  # (key, when it opened), in order
    compacted: int = 0
    forgotten: int = 0
    subscriptions: list = field(default_factory=list)
    sessions: dict = field(default_factory=dict)  # the named ones, by their names

    def duration_us(self, name):
        value = self.settings[name]
        return float("inf") if value == FOREVER else value * 1000

    # -- what is there ---------------------------------------------------------------------------

    @property
    def next_offset(self):
        return len(self.messages)

    @property
    def head(self):
        return next(
            (o for o, m in enumerate(self.messages) if m.fate == RESIDENT), self.next_offset
        )

    @property
    def bytes(self):
        return sum(
            self.batches[number]
            for number in {m.batch for m in self.messages if m.fate == RESIDENT}
        )

    def fates(self, fate):
        return sum(message.fate == fate for message in self.messages)

    @property
    def live(self):
        return [s for s in self.subscriptions if not s.ended and not s.is_cut_off]

    @property
    def needed(self):
        """The oldest offset that anybody may still have to be sent."""
        anonymous = [subscription.cursor for subscription in self.live if not subscription.session]
        named = [session.committed for session in self.sessions.values()]
        return min(anonymous + named, default=self.next_offset)

    # -- what happens ----------------------------------------------------------------------------

    def expire(self, now):
        ttl = self.duration_us("retention_ttl_ms")
        if ttl == 0:
            return
        for message in self.messages:
            if (
                message.fate == RESIDENT
                and not message.accepted_us <= now < message.accepted_us + ttl
            ):
                message.fate = EXPIRED

    def close_windows(self, now):
        length = self.duration_us("compaction_window_ms")
        self.windows = [(key, opened) for key, opened in self.windows if now < opened + length]

    def forget(self, forgotten):
        self.sessions = {
            name: session for name, session in self.sessions.items() if session is not forgotten
        }

    def forget_sessions(self, now, ttl):
        for session in list(self.sessions.values()):
            if session.left is None and not session.reader:
                session.left = now
            elif not session.reader and now >= session.left + ttl:
                self.forget(session)

    def sweep(self, now):
        self.expire(now)
        self.close_windows(now)
        if self.settings["retention_ttl_ms"] == 0:
            for offset, message in enumerate(self.messages):
                if message.fate == RESIDENT and offset < self.needed:
                    message.fate = EXPIRED

    def publish(self, request_id, pairs, now):
        if len(pairs) > self.settings["capacity"] or wire_bytes(pairs) > self.settings["max_bytes"]:
            raise ModelError(ErrorCode.BATCH_TOO_LARGE, "batch")
        self.expire(now)
        if self.settings["overflow"] and any(
            offset >= self.needed for offset in self.lost_for(pairs)
        ):
            raise ModelError(ErrorCode.TOPIC_FULL, "topic")
        first = self.next_offset
        kept, dropped = [], []
        self.close_windows(now)
        for key, payload in pairs:
            if (
                key
                and self.settings["compaction_window_ms"]
                and key in [known for known, _ in self.windows]
            ):
                dropped.append(True)
                continue
            dropped.append(False)
            kept.append((key, payload))
            if key and self.settings["compaction_window_ms"]:
                self.windows.append((key, now))
        while len(self.windows) > self.settings["max_keys"]:
            self.windows.pop(0)
            self.forgotten += 1
        self.compacted += sum(dropped)
        if kept:
            self.messages += [
                Message(key, payload, now, len(self.batches)) for key, payload in kept
            ]
            self.batches.append(wire_bytes(kept))
            self.evict()
        bits = b""
        if any(dropped):
            number = sum(1 << position for position, gone in enumerate(dropped) if gone)
            bits = number.to_bytes((len(pairs) + 7) // 8, "little")
        return Published(request_id, first, len(kept), sum(dropped), len(self.live), bits)

    def lost_for(self, pairs):
        """The offsets that would be evicted if all of these were stored."""
        messages, batches = deepcopy((self.messages, self.batches))
        copy = ModelTopic(self.name, self.epoch, self.settings, self.explicit, messages, batches)
        copy.messages += [Message(key, payload, 0, len(copy.batches)) for key, payload in pairs]
        copy.batches.append(wire_bytes(pairs))
        copy.evict()
        return [
            offset
            for offset, message in enumerate(self.messages)
            if message.fate != copy.messages[offset].fate
        ]

    def evict(self):
        while self.fates(RESIDENT) > self.settings["capacity"]:
            self.messages[self.head].cause = "capacity"
            self.messages[self.head].fate = EVICTED
        while self.bytes > self.settings["max_bytes"]:
            oldest = self.messages[self.head].batch
            for message in self.messages:
                if message.batch == oldest and message.fate == RESIDENT:
                    message.cause = "max_bytes"
                    message.fate = EVICTED

    def position(self, start, value, now):
        self.expire(now)
        if start == Start.EARLIEST:
            return self.head if self.settings["retention_ttl_ms"] else self.next_offset
        if start == Start.LATEST:
            return self.next_offset
        if start == Start.OFFSET:
            if value > self.next_offset:
                raise ModelError(ErrorCode.OFFSET_AHEAD, "value")
            return value
        return next(
            (
                o
                for o, m in enumerate(self.messages)
                if m.fate == RESIDENT and m.accepted_us >= value
            ),
            self.next_offset,
        )
