"""Brokers that are wrong about what a broker may leave out (S16).

tiny_broker.py leaves it out. So these are mutants of one that does not: of what EXTENSION makes of it.
"""

from learn_mutant import declaring

MUTANTS = []

EXTENSION = (
    '    8: ("close", ""),\n',
    """    8: ("close", ""),
    10: ("delete", "topic:str epoch:Q"),
    11: ("disconnect", "connection:Q"),
""",
    "class Broker(dict[bytes, Topic]):\n",
    """class Broker(dict[bytes, Topic]):
    last_deleted, names = 0, {}
""",
    "Topic(epoch=max(now, 1))",
    "Topic(epoch=max(now, self.last_deleted + 1))",
    '(kind, flags) == (5, 1), UNSUPPORTED, "flags"',
    '(kind, flags) in ((4, 1), (5, 1), (10, 1)), UNSUPPORTED, "flags"',
    "            method, layout = REQUESTS[kind]\n",
    """            method, layout = REQUESTS[kind]
            layout += " owner:Q attempt:I" * (kind == 4 and flags)
""",
    "Request(id=frame_id, now",
    "Request(id=frame_id, flags=flags, now",
    'struct.pack("<HQQ5I", 1, 0, BOOT',
    'struct.pack("<HQQ5I", 1, request.features & 2, BOOT',
    "        self.cursor = self.committed = cursor\n",
    """        self.cursor = self.committed = cursor
        self.code = 1
""",
    'struct.pack("<HQ", 1, self.cursor)',
    'struct.pack("<HQ", self.code, self.cursor)',
    "    def next_event(self) -> bytes:\n",
    """    def end(self, code: int) -> None:
        self.code, self.until = code, 0
        self.connection.wake.set()

    def next_event(self) -> bytes:
""",
    '        require(not request.name, UNSUPPORTED, "name", "no named subscriptions here: leave it empty")\n',
    "",
    "        reader = self.subscriptions[request.id] = Subscription(self, topic, start, request)\n",
    """        place = Request(reader=None, owner=0, attempt=0, replaced=[])
        if request.name:
            place = self.broker.names.setdefault((request.topic, request.name), place)
            owner, attempt = getattr(request, "owner", 0), getattr(request, "attempt", 0)
            require(owner not in place.replaced, 82, "owner", "it was replaced")
            require(not owner or owner != place.owner or attempt > place.attempt, 82, "attempt", "it comes late")
            if place.owner not in (0, owner):
                place.replaced.append(place.owner)
            place.owner, place.attempt = owner, attempt
            if place.reader:
                start = place.reader.committed
                place.reader.end(2)
        reader = place.reader = self.subscriptions[request.id] = Subscription(self, topic, start, request)
""",
    "    def close(self, _request: object = None) -> None:\n",
    """    def delete(self, request: Request) -> None:
        require(request.topic[:1] != b"$", INVALID_FIELD, "topic", "the broker's own")
        require(request.topic in self.broker, 66, "topic", "there is none")
        topic = self.broker[request.topic]
        require(request.epoch in (0, topic.epoch), EPOCH_CHANGED, "epoch", "another one")
        is_empty = not topic.ring and not topic.live_readers()
        require(is_empty or not request.flags, 81, "topic", "not empty")
        self.broker.last_deleted = max(self.broker.last_deleted, topic.epoch)
        for reader in topic.live_readers():
            reader.end(4)
        self.broker.names = {key: place for key, place in self.broker.names.items() if key[0] != request.topic}
        del self.broker[request.topic]

    def disconnect(self, request: Request) -> None:
        require(False, INVALID_FIELD, "connection", "there is none")

    def close(self, _request: object = None) -> None:
""",
)

_declare = declaring(MUTANTS)


def mutant(name, kills, says, *texts):
    _declare(name, kills, says, *EXTENSION, *texts)


mutant(
    "readers of a deleted topic are not told",
    "S16.1",
    "nothing came",
    "            reader.end(4)\n",
    "            pass\n",
)
mutant(
    "readers of a deleted topic are told that it reached its end",
    "S16.1",
    "SubscriptionEnded.code should be DELETED, and is UNTIL",
    "reader.end(4)",
    "reader.end(1)",
)
mutant(
    "a deleted topic only looks empty",
    "S16.1",
    "created should be",
    "        del self.broker[request.topic]\n",
    "        topic.ring.clear()\n",
)
mutant(
    "any epoch will do",
    "S16.2",
    "should have come",
    'require(request.epoch in (0, topic.epoch), EPOCH_CHANGED, "epoch", "another one")',
    'require(True, EPOCH_CHANGED, "epoch", "another one")',
)
mutant(
    "a topic with a reader is empty",
    "S16.2",
    "should have come",
    "is_empty = not topic.ring and not topic.live_readers()",
    "is_empty = not topic.ring",
)
mutant(
    "the broker's own topics are looked for",
    "S16.2",
    "the error should be INVALID_FIELD, and is NO_SUCH_TOPIC",
    """        require(request.topic[:1] != b"$", INVALID_FIELD, "topic", "the broker's own")\n""",
    "",
)
mutant(
    "epochs are whole seconds",
    "S16.3",
    "a deleted one of its name had",
    "Topic(epoch=max(now, self.last_deleted + 1))",
    "Topic(epoch=max(now // 10**6 * 10**6, 1))",
)
mutant(
    "a name is fought for",
    "S16.4",
    "should have come",
    "                place.replaced.append(place.owner)\n",
    "                pass\n",
)
mutant(
    "what comes late comes in",
    "S16.4",
    "should have come",
    "or attempt > place.attempt,",
    "or attempt >= place.attempt,",
)
mutant(
    "nobody is disconnected, and that is fine",
    "S16.5",
    "should have come",
    'require(False, INVALID_FIELD, "connection", "there is none")',
    "pass",
)
