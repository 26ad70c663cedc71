"""Brokers that are wrong about what a broker may leave out (S16).

tiny_broker.py leaves it out. So these are mutants of one that does not: of what EXTENSION makes of
it.
"""

from learn_mutant import declaring

MUTANTS = []

EXTENSION = (
    "EPOCH_CHANGED",
    "NOT_IN_FLIGHT, OFFSET_AHEAD, EPOCH_CHANGED, BATCH_TOO_LARGE = 71, 72, 73, 76",
    """
    NOT_IN_FLIGHT, OFFSET_AHEAD, EPOCH_CHANGED, BATCH_TOO_LARGE = 71, 72, 73, 76
    REQUESTS |= {10: ("delete", "topic:str epoch:Q"), 11: ("disconnect", "connection:Q")}
    """,
    "Broker",
    '"""All topics by their names."""',
    """
    \"\"\"All topics by their names.\"\"\"
    last_deleted, names = 0, {}
    """,
    "Broker.find",
    "max(now, 1)",
    "max(now, self.last_deleted + 1)",
    "Connection.answer",
    "(kind, flags) == (5, 1)",
    "(kind, flags) in ((4, 1), (5, 1), (10, 1))",
    "Connection.answer",
    "method, layout = REQUESTS[kind]",
    """
    method, layout = REQUESTS[kind]
    layout += " owner:Q attempt:I" * (kind == 4 and flags)
    """,
    "Connection.answer",
    "Request(id=frame_id, now=self.now_us(), **fields)",
    "Request(id=frame_id, flags=flags, now=self.now_us(), **fields)",
    "Connection.hello",
    'struct.pack("<HQQ5I", 1, 0, BOOT, MAX_FRAME, 8192, 1_048_576, 2**32 - 1, 0)',
    """
    struct.pack(
        "<HQQ5I",
        1,
        request.features & 2,
        BOOT,
        MAX_FRAME,
        8192,
        1_048_576,
        2**32 - 1,
        0,
    )
    """,
    "Subscription.__init__",
    "self.cursor = self.committed = cursor",
    """
    self.cursor = self.committed = cursor
    self.code = 1

    def end(code: int) -> None:
        self.code, self.until = code, 0
        self.connection.wake.set()

    self.end = end
    """,
    "Subscription.all_events",
    'struct.pack("<HQ", 1, self.cursor)',
    'struct.pack("<HQ", self.code, self.cursor)',
    "Connection.subscribe",
    """
    require(
        not request.name,
        UNSUPPORTED,
        "name",
        "no named subscriptions here: leave it empty",
    )
    """,
    "pass",
    "Connection.subscribe",
    "reader = self.subscriptions[request.id] = Subscription(self, topic, start, request)",
    """
    place = Request(reader=None, owner=0, attempt=0, replaced=[])
    if request.name:
        place = self.broker.names.setdefault((request.topic, request.name), place)
        owner, attempt = getattr(request, "owner", 0), getattr(request, "attempt", 0)
        require(owner not in place.replaced, 82, "owner", "it was replaced")
        require(
            not owner or owner != place.owner or attempt > place.attempt,
            82,
            "attempt",
            "it comes late",
        )
        if place.owner not in (0, owner):
            place.replaced.append(place.owner)
        place.owner, place.attempt = owner, attempt
        if place.reader:
            start = place.reader.committed
            place.reader.end(2)
    reader = place.reader = self.subscriptions[request.id] = Subscription(
        self, topic, start, request
    )
    """,
    "Connection",
    """
    def ping(self, request: Request) -> bytes:
        \"\"\"Says the same again.\"\"\"
        return struct.pack("<Q", request.value)
    """,
    """
    def ping(self, request: Request) -> bytes:
        \"\"\"Says the same again.\"\"\"
        return struct.pack("<Q", request.value)


    def delete(self, request: Request) -> None:
        require(request.topic[:1] != b"$", INVALID_FIELD, "topic", "the broker's own")
        require(request.topic in self.broker, 66, "topic", "there is none")
        topic = self.broker[request.topic]
        require(
            request.epoch in (0, topic.epoch), EPOCH_CHANGED, "epoch", "another one"
        )
        is_empty = not topic.ring and not topic.live_readers()
        require(is_empty or not request.flags, 81, "topic", "not empty")
        self.broker.last_deleted = max(self.broker.last_deleted, topic.epoch)
        for reader in topic.live_readers():
            reader.end(4)
        self.broker.names = {
            key: place
            for key, place in self.broker.names.items()
            if key[0] != request.topic
        }
        del self.broker[request.topic]


    def disconnect(self, request: Request) -> None:
        require(False, INVALID_FIELD, "connection", "there is none")
    """,
)

_declare = declaring(MUTANTS)


def mutant(name, kills, says, *texts):
    _declare(name, kills, says, *EXTENSION, *texts)


mutant(
    "readers of a deleted topic are not told",
    "S16.1",
    "nothing came",
    "Connection.delete",
    "reader.end(4)",
    "pass",
)
mutant(
    "readers of a deleted topic are told that it reached its end",
    "S16.1",
    "SubscriptionEnded.code should be DELETED, but is UNTIL",
    "Connection.delete",
    "reader.end(4)",
    "reader.end(1)",
)
mutant(
    "a deleted topic only looks empty",
    "S16.1",
    "created should be",
    "Connection.delete",
    "del self.broker[request.topic]",
    "topic.ring.clear()",
)
mutant(
    "any epoch will do",
    "S16.2",
    "should have come",
    "Connection.delete",
    "request.epoch in (0, topic.epoch)",
    "True",
)
mutant(
    "a topic with a reader is empty",
    "S16.2",
    "should have come",
    "Connection.delete",
    "not topic.ring and not topic.live_readers()",
    "not topic.ring",
)
mutant(
    "the broker's own topics are looked for",
    "S16.2",
    "the error should be INVALID_FIELD, but is NO_SUCH_TOPIC",
    "Connection.delete",
    'require(request.topic[:1] != b"$", INVALID_FIELD, "topic", "the broker\'s own")',
    "pass",
)
mutant(
    "epochs are whole seconds",
    "S16.3",
    "a deleted one of its name had",
    "Broker.find",
    "max(now, self.last_deleted + 1)",
    "max(now // 10**6 * 10**6, 1)",
)
mutant(
    "a name is fought for",
    "S16.4",
    "should have come",
    "Connection.subscribe",
    "place.replaced.append(place.owner)",
    "pass",
)
mutant(
    "what comes late comes in",
    "S16.4",
    "should have come",
    "Connection.subscribe",
    "attempt > place.attempt",
    "attempt >= place.attempt",
)
mutant(
    "nobody is disconnected, and that is fine",
    "S16.5",
    "should have come",
    "Connection.disconnect",
    'require(False, INVALID_FIELD, "connection", "there is none")',
    "pass",
)
