"""Brokers that are wrong about topics and subscriptions (S5 to S8)."""

from learn_mutant import declaring

MUTANTS = []
mutant = declaring(MUTANTS)

# -- S5: publish and subscribe -------------------------------------------------------------------
mutant(
    "the epoch is 0",
    "S5.1",
    "epoch must not be 0",
    "Broker.find",
    "max(now, 1)",
    "0",
)
mutant(
    "offsets begin at 1",
    "S5.2",
    "Messages.base should be",
    "Subscription.next_event",
    'struct.pack("<Qq", offset, accepted_us)',
    'struct.pack("<Qq", offset + 1, accepted_us)',
)
mutant(
    "keys are lost",
    "S5.2",
    "the (key|payload) of offset [0-9]+",
    "Subscription.next_event",
    'struct.pack("<I4i", 1, 0, len(key), 0, len(payload)) + key',
    'struct.pack("<I4i", 1, 0, 0, 0, len(payload))',
)
mutant(
    "payloads end at a zero byte",
    "S5.3",
    "the (key|payload) of offset [0-9]+",
    "Subscription.next_event",
    "accepted_us, key, payload = topic.ring[offset - head]",
    """
    accepted_us, key, payload = topic.ring[offset - head]
    payload = payload.partition(b"\\0")[0]
    """,
)
mutant(
    "messages overtake replies",
    "S5.4",
    "should have come",
    "Connection.write",
    "self.replies + events",
    "events + self.replies",
)
mutant(
    "long payloads are cut",
    "S5.5",
    "the (key|payload) of offset [0-9]+",
    "Subscription.next_event",
    "accepted_us, key, payload = topic.ring[offset - head]",
    """
    accepted_us, key, payload = topic.ring[offset - head]
    payload = payload[:65535]
    """,
)
mutant(
    "similar names are one topic",
    "S5.6",
    "first_offset should be",
    "Broker.find",
    "self.setdefault(name, Topic(epoch=max(now, 1)))",
    "self.setdefault(name[:-1], Topic(epoch=max(now, 1)))",
)
mutant(
    "time is in milliseconds",
    "S5.7",
    "not the time of day",
    "Subscription.next_event",
    'struct.pack("<Qq", offset, accepted_us)',
    'struct.pack("<Qq", offset, accepted_us // 1000)',
)
mutant(
    "time goes back",
    "S5.7",
    "accepted_us went back",
    "Subscription.next_event",
    'struct.pack("<Qq", offset, accepted_us)',
    'struct.pack("<Qq", offset, accepted_us - 1_000_000 * offset)',
)
mutant(
    "bad columns are stored",
    "S5.8",
    "should have come",
    "read_batch",
    """
    require(
        good,
        INVALID_FIELD,
        "batch",
        "its offsets do not begin at 0, or decrease, or miss its size",
    )
    """,
    """
    require(
        True,
        INVALID_FIELD,
        "batch",
        "its offsets do not begin at 0, or decrease, or miss its size",
    )
    """,
)

# -- S6: order -----------------------------------------------------------------------------------
mutant(
    "one message is skipped",
    "S6.1",
    "gaps|nothing came",
    "Subscription.next_event",
    "self.cursor += 1",
    "self.cursor += 1 + (offset == 40)",
)
mutant(
    "one number is left out",
    "S6.1",
    "offsets have gaps",
    "Subscription.next_event",
    'struct.pack("<Qq", offset, accepted_us)',
    'struct.pack("<Qq", offset + (offset > 20), accepted_us)',
)
mutant(
    "readers are sent different messages",
    "S6.1",
    "different messages at offset 20",
    "Subscription.next_event",
    "accepted_us, key, payload = topic.ring[offset - head]",
    """
    accepted_us, key, payload = topic.ring[offset - head]
    payload += b"!" * (offset == 20 and topic.readers[0] is not self)
    """,
)
mutant(
    "batches are torn apart",
    "S6.2",
    "is not there|different|nothing came",
    "Connection.publish",
    "first, dropped = topic.next_offset, topic.publish(batch, request.now)",
    """
    first, dropped = topic.next_offset, topic.publish(batch[:1], request.now)
    import asyncio

    asyncio.get_running_loop().call_soon(
        lambda: (
            [topic.publish(batch[1:], request.now)]
            + [reader.connection.wake.set() for reader in topic.live_readers()]
        )
    )
    """,
)

# -- S7: topics ----------------------------------------------------------------------------------
mutant(
    "what nobody reads is not stored",
    "S7.1",
    "first_offset should be",
    "Topic.publish",
    "dropped = 0",
    """
    dropped = 0
    if not self.live_readers():
        return 0
    """,
)
mutant(
    "retention 0 keeps messages for latecomers",
    "S7.2",
    "Subscribed.start should be",
    "Connection.subscribe",
    "head if topic.settings[TTL_MS] else end",
    "head",
)
mutant(
    "settings are told in another order",
    "S7.3",
    "does not report the settings",
    "Connection.create_topic",
    '(struct.pack("<BQ", *setting) for setting in topic.settings.items())',
    """
    (
        struct.pack("<BQ", *setting)
        for setting in sorted(topic.settings.items(), reverse=True)
    )
    """,
)
mutant(
    "other settings are ignored",
    "S7.4 S7.5",
    "should have come",
    "Connection.create_topic",
    "request.settings.items() <= topic.settings.items()",
    "True",
)
mutant(
    "an automatic topic takes no settings",
    "S7.5",
    "should have come",
    "Connection.create_topic",
    "topic.settings is DEFAULTS and topic.next_offset == 0",
    "created",
)
mutant(
    "an automatic topic says that it takes settings",
    "S7.5",
    "did not take the capacity",
    "Connection.create_topic",
    "DEFAULTS | request.settings",
    "DEFAULTS | (request.settings if created else {})",
    "Connection.create_topic",
    "request.settings.items() <= topic.settings.items()",
    "topic.settings == DEFAULTS or request.settings.items() <= topic.settings.items()",
)
mutant(
    "the second creator replaces the topic (as in 2020)",
    "S7.6 S7.3",
    "epochs|epoch should be|created should be|were told",
    "Connection.create_topic",
    "topic = self.broker.find(request.topic, request.now)",
    """
    topic = self.broker.find(request.topic, request.now)
    if topic.next_offset == 0:
        topic = self.broker[request.topic] = Topic(epoch=request.now)
    """,
)
mutant(
    "any name will do",
    "S7.7",
    "should have come",
    "Broker.find",
    '0 < len(name) <= 200 and name[:1] != b"$"',
    "name",
)

# -- S8: unsubscribe -----------------------------------------------------------------------------
mutant(
    "Unsubscribe is answered, no more",
    "S8.1 S8.3",
    "subscribers should be|nothing was|but \\w+ came",
    "Connection.unsubscribe",
    "self.subscriptions.pop(request.subscription).until = 0",
    "self.subscriptions[request.subscription]",
)
mutant(
    "leaving twice is fine",
    "S8.2",
    "should have come",
    "Connection.unsubscribe",
    """
    require(
        request.subscription in self.subscriptions,
        NO_SUCH_SUBSCRIPTION,
        "subscription",
        "unknown",
    )
    self.subscriptions.pop(request.subscription).until = 0
    """,
    """
    if request.subscription in self.subscriptions:
        self.subscriptions.pop(request.subscription).until = 0
    """,
)
mutant(
    "a second subscription replaces the first",
    "S8.3",
    "nothing came|subscribers should be",
    "Connection.subscribe",
    "start = (earliest, end, request.value, at_time)[request.start]",
    """
    start = (earliest, end, request.value, at_time)[request.start]
    self.subscriptions = {
        i: s for i, s in self.subscriptions.items() if s.topic is not topic
    }
    """,
)
mutant(
    "ids may come again",
    "S8.4",
    "should have come",
    "Connection.subscribe",
    "request.id > self.last_subscribe_id",
    "request.id not in self.subscriptions",
)
mutant(
    "the dead are counted (as in 2020)",
    "S8.5 S14.4",
    "still counted|subscribers should be",
    "Topic.live_readers",
    "each.cursor < each.until and not each.connection.done",
    "each.cursor < each.until",
)
