"""A random history of one durable topic, and what must hold after each of its steps, whatever
happens.

The truth is what the log has on its disk. Nothing else may be reported to a publisher, or
delivered to a reader.
"""

import json

from conversation import Conversation, batch
from fake_log import Durably

from zaichik_protocol import (
    DURABLE,
    Commit,
    CreateTopic,
    Describe,
    Error,
    ErrorCode,
    Hello,
    Kind,
    Lagged,
    Messages,
    Publish,
    Published,
    Setting,
    Start,
    Subscribe,
    Subscribed,
)

SECOND_US = 1_000_000
KEYS = [b"", b"a", b"b", b"c"]
AGAIN = {ErrorCode.STORAGE_FULL, ErrorCode.NO_MEMORY, ErrorCode.SEQUENCE_GAP}


class Listener(Conversation):
    """A client that checks all it receives against the log."""

    def __init__(self, history, number):
        super().__init__(history.broker, greeted=False)
        self.ask(Hello(1, client=f"client {number}", features=DURABLE))
        self.history, self.number = history, number
        self.ids = 10
        self.asked = {}  # publishes that wait for an answer
        self.sent = []  # the messages of numbered batches, by their numbers
        self.next = {}  # by subscription, the offset that must come next

    def publish(self, messages, *, numbered):
        """Send a batch; under a number, it is any that may be sent, again or for the first time."""
        self.ids += 1
        producer = sequence = 0
        if numbered is not None:
            producer, sequence = 100 + self.number, numbered
            if sequence == len(self.sent):
                self.sent.append(messages)
            messages = self.sent[sequence]
        self.asked[self.ids] = messages, producer, sequence, self.history.now_us
        self.tell(Publish(self.ids, "t", batch(*messages), producer=producer, sequence=sequence))

    def subscribe(self, start, value):
        self.ids += 1
        self.tell(Subscribe(self.ids, "t", start=start, value=value, credit=7))

    def commit_some(self, random):
        for subscription, offset in self.next.items():
            if random.random() < 0.5:
                self.tell(Commit(0, subscription, offset))

    def listen(self):
        for frame in self.heard():
            match frame:
                case Published():
                    self._answered(frame)
                case Error() if frame.id in self.asked:
                    assert ErrorCode(frame.code) in AGAIN, frame
                    del self.asked[frame.id]
                case Subscribed():
                    self.next[frame.id] = frame.start
                case Lagged():
                    assert frame.from_offset == self.next[frame.id] < frame.to_offset
                    self.history.check_gone(frame)
                    self.next[frame.id] = frame.to_offset
                case Messages():
                    assert frame.base == self.next[frame.id]
                    self.history.check_delivered(frame)
                    self.next[frame.id] = frame.base + frame.batch.count
                case _:
                    raise AssertionError(frame)

    def _answered(self, frame):
        messages, producer, sequence, asked_us = self.asked.pop(frame.id)
        assert frame.durable
        dropped = {
            index
            for index in range(len(messages))
            if frame.dropped and frame.dropped[index // 8] >> index % 8 & 1
        }
        kept = [message for index, message in enumerate(messages) if index not in dropped]
        assert (len(kept), len(dropped)) == (frame.stored, frame.compacted)
        assert self.history.stored_at(frame.first_offset, frame.stored) == kept
        if not frame.duplicate:
            for index in dropped:
                assert self.history.is_open(messages[index][0], asked_us), (
                    "it was dropped for one that is not stored"
                )
        if producer:
            found = [
                it.base
                for it in self.history.disk()
                if (it.producer, it.sequence) == (producer, sequence)
            ]
            assert found == [frame.first_offset]


class History:
    """A topic, its log, three clients, and the steps."""

    def __init__(self, random, *, window=0, ttl=0):
        self.random, self.window_us, self.ttl_us = random, window * SECOND_US, ttl * SECOND_US
        owner = Durably()
        settings = {
            Setting.DURABLE: 1,
            Setting.CAPACITY: 4,
            Setting.COMPACTION_WINDOW_MS: window * 1000,
        }
        if ttl:
            settings[Setting.RETENTION_TTL_MS] = ttl * 1000
        self.broker = owner.broker
        owner.tell(CreateTopic(2, "t", tuple(settings.items())))
        self.log, self.topic, self.owner = owner.log, owner.topic, owner
        self.log.sync()
        owner.heard()
        self.log.drop_below = lambda offset: None  # files are removed by a step of their own
        self.all = []  # all records ever synced
        self.clients = [Listener(self, number) for number in range(3)]

    @property
    def now_us(self):
        return self.broker.clock.now_us()

    # -- the truth -------------------------------------------------------------------------------

    def disk(self):
        return [record for record in self.all if record.kind == "publish"]

    def messages(self):
        """All that were ever stored, by offset: time, key, payload."""
        found = []
        for record in self.disk():
            assert record.base == len(found)
            if record.count:
                pairs = zip(record.what.keys(), record.what.each_payload(), strict=True)
                found += [
                    (record.accepted_us, (bytes(key), bytes(payload))) for key, payload in pairs
                ]
        return found

    def stored_at(self, offset, count):
        return [pair for _, pair in self.messages()[offset : offset + count]]

    def is_open(self, key, at_us):
        opened = [
            accepted for accepted, (it, _) in self.messages() if it == key and accepted <= at_us
        ]
        return any(at_us < accepted + self.window_us for accepted in opened)

    def check_gone(self, lagged):
        for accepted_us, _ in self.messages()[lagged.from_offset : lagged.to_offset]:
            expired = self.ttl_us and self.now_us >= accepted_us + self.ttl_us
            assert expired or lagged.to_offset <= self.log.head, (
                "it was told as lag, and could have been read"
            )

    def check_delivered(self, frame):
        assert not self.ttl_us or self.now_us < frame.accepted_us + self.ttl_us, "it has expired"
        pairs = zip(frame.batch.keys(), frame.batch.each_payload(), strict=True)
        told = [(frame.accepted_us, (bytes(key), bytes(payload))) for key, payload in pairs]
        assert told == self.messages()[frame.base : frame.base + frame.batch.count]

    def check(self):
        """What holds after each step."""
        (page,) = self.owner.ask(Describe(9, Kind.TOPICS, "t"))
        (told,) = json.loads(page.json)["topics"]
        assert set(told["left_over"].values()) == {0}, told
        assert 0 <= told["head"] <= told["next_offset"] == self.log.end
        numbers = {}
        for record in self.disk():
            if record.producer:
                assert record.sequence == numbers.get(record.producer, 0)
                numbers[record.producer] = record.sequence + 1
        opened = {}
        for accepted_us, (key, _) in self.messages() if self.window_us else ():
            if key:
                assert accepted_us >= opened.get(key, 0), "a window let a second one through"
                opened[key] = accepted_us + self.window_us

    # -- steps -----------------------------------------------------------------------------------

    def step(self):
        random, log = self.random, self.log
        client = random.choice(self.clients)
        match random.choice("ppppppssssrtwjcfll"):
            case "p":
                messages = [
                    (random.choice(KEYS), b"%d" % random.randrange(1000))
                    for _ in range(random.randint(1, 4))
                ]
                numbered = random.choice(
                    [None, len(client.sent), random.randint(0, len(client.sent))]
                )
                client.publish(messages, numbered=numbered)
            case "s":
                self.sync(random.randint(1, max(len(log.gathered), 1)))
            case "r" if random.random() < 0.5:
                log.refuse_all()
            case "t":
                self.broker.clock.advance(random.choice([0.001, 0.5, 1, 3]))
            case "w":
                self.broker.sweep()
            case "j":
                start = random.choice([Start.EARLIEST, Start.LATEST, Start.OFFSET, Start.TIME])
                value = {
                    Start.OFFSET: random.randint(0, log.end),
                    Start.TIME: max(self.now_us - 2 * SECOND_US, 0),
                }
                client.subscribe(start, value.get(start, 0))
            case "c":
                client.commit_some(random)
            case "f" if random.random() < 0.3 and log.end:
                log.remove_files(random.randint(0, log.end))
            case "l":
                log.look()
                log.read(random.randint(1, 3))
        self.listen()

    def sync(self, count=None):
        self.all += self.log.gathered[:count]
        self.log.sync(count)

    def listen(self):
        for client in self.clients:
            client.listen()
        self.check()

    def end(self):
        """All is synced and read: every client has an answer, and every reader is at the end."""
        before, is_busy = [], True
        while is_busy or before != [client.next for client in self.clients]:
            before = [dict(client.next) for client in self.clients]
            is_busy = bool(self.log.gathered or self.log.looks)
            self.sync()
            self.log.look()
            for client in self.clients:
                client.tell(
                    *[
                        Commit(0, subscription, offset)
                        for subscription, offset in client.next.items()
                    ]
                )
            self.listen()
            is_busy |= self.log.read()
            self.listen()
        assert [client.asked for client in self.clients] == [{}] * 3
        assert {offset for client in self.clients for offset in client.next.values()} <= {
            self.log.end
        }
