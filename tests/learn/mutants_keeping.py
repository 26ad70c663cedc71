"""Brokers that are wrong about retention and compaction (S11 and S12)."""

from learn_mutant import declaring

MUTANTS = []
mutant = declaring(MUTANTS)

# -- S11: retention ------------------------------------------------------------------------------
mutant(
    "only the last twenty are history",
    "S11.1",
    "start should be",
    "Connection.subscribe",
    "head if topic.settings[TTL_MS] else end",
    "max(head, end - 20) if topic.settings[TTL_MS] else end",
)
mutant(
    "live is told only up to twenty",
    "S11.1",
    "live should be 30",
    "Connection.subscribe",
    'struct.pack("<4Q", topic.epoch, start, end, start)',
    'struct.pack("<4Q", topic.epoch, start, min(end, 20), start)',
)
mutant(
    "a time begins after itself",
    "S11.2",
    "start should be",
    "Connection.subscribe",
    '(request.value, b"", b"")',
    '(request.value + 1, b"", b"")',
)
mutant(
    "one can start in the future",
    "S11.2",
    "should have come|ended the connection",
    "Connection.subscribe",
    "request.start != 2 or request.value <= end",
    "True",
)
mutant(
    "epochs are not compared",
    "S11.3",
    "should have come",
    "Connection.subscribe",
    "request.epoch in (0, topic.epoch)",
    "True",
)
mutant(
    "until is not looked at",
    "S11.4",
    "should have come|nothing came",
    "Subscription.all_events",
    "self.cursor < self.until",
    "True",
)
mutant(
    "retention is taken for seconds",
    "S11.5 S11.6",
    "start should be|should have come",
    "Topic.head",
    "self.settings[TTL_MS] * 1000",
    "self.settings[TTL_MS] * 1_000_000",
)
mutant(
    "retention is taken for microseconds",
    "S11.5",
    "start should be|nothing came|should have come",
    "Topic.head",
    "self.settings[TTL_MS] * 1000",
    "self.settings[TTL_MS]",
)
mutant(
    "who waits gets what has expired",
    "S11.6",
    "should have come",
    "Subscription.next_event",
    "topic.head(self.connection.now_us())",
    "topic.next_offset - len(topic.ring)",
    "Broker.sweep",
    "topic.head(now_us)",
    "topic.next_offset - len(topic.ring)",
)
mutant(
    "who asks for too old an offset is not told",
    "S11.7",
    "Subscribed.start should be",
    "Connection.subscribe",
    "(earliest, end, request.value, at_time)",
    "(earliest, end, max(head, request.value), at_time)",
)

# -- S12: compaction -----------------------------------------------------------------------------
mutant(
    "the bitmap has its highest bit first",
    "S12.1",
    "dropped should be",
    "Topic.publish",
    "1 << place",
    "1 << (place ^ 7)",
)
mutant(
    "windows end with their batch",
    "S12.2 S12.3 S12.6",
    "stored should be",
    "Topic.publish",
    "dropped = 0",
    "dropped, self.windows = 0, {}",
)
mutant(
    "messages without a key are compacted",
    "S12.3 S12.1",
    "stored should be|compacted should be",
    "Topic.publish",
    "key and now < self.windows.get(key, 0)",
    "now < self.windows.get(key, 0)",
)
mutant(
    "keys are compared without case",
    "S12.3",
    "stored should be",
    "Topic.publish",
    "self.windows.get(key, 0)",
    "self.windows.get(key.lower(), 0)",
    "Topic.publish",
    "self.windows[key] = now + self.settings[WINDOW_MS] * 1000",
    "self.windows[key.lower()] = now + self.settings[WINDOW_MS] * 1000",
)
mutant(
    "a window of 0 is one microsecond",
    "S12.4",
    "stored should be",
    "Topic.publish",
    "now < self.windows.get(key, 0)",
    "now <= self.windows.get(key, -1)",
)
mutant(
    "repeats prolong the window",
    "S12.5",
    "stored should be",
    "Topic.publish",
    "dropped |= 1 << place",
    """
    dropped |= 1 << place
    self.windows[key] = now + self.settings[WINDOW_MS] * 1000
    """,
)
mutant(
    "who is evicted is forgotten",
    "S12.6",
    "first_offset should be|stored should be",
    "Topic.publish",
    "return dropped",
    """
    there = {key for _, key, _ in self.ring}
    self.windows = {key: end for key, end in self.windows.items() if key in there}
    return dropped
    """,
)
