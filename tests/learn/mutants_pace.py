"""Brokers that are wrong about credit and lag (S9 and S10)."""

from learn_mutant import declaring

MUTANTS = []
mutant = declaring(MUTANTS)

# -- S9: commit ----------------------------------------------------------------------------------
mutant(
    "credit is not looked at",
    "S9.1",
    "but Messages came",
    "Subscription.next_event",
    "len(self.in_flight) >= self.credit or used >= self.credit_bytes",
    "used >= self.credit_bytes",
)
mutant(
    "one message too many",
    "S9.1",
    "2 in flight, credit 1, but Messages came",
    "Subscription.next_event",
    "len(self.in_flight) >= self.credit",
    "len(self.in_flight) > self.credit",
)
mutant(
    "a commit settles one message",
    "S9.2",
    "nothing came",
    "Connection.commit",
    """
    reader.in_flight = {
        at: size for at, size in reader.in_flight.items() if at >= reader.committed
    }
    """,
    "reader.in_flight.pop(min(reader.in_flight, default=0), None)",
)
mutant(
    "the future can be committed",
    "S9.3",
    "should have come",
    "Connection.commit",
    "request.next <= reader.cursor",
    "True",
)
mutant(
    "a commit of nothing buys a message (as in 2020)",
    "S9.4",
    "but Messages came|should be",
    "Connection.commit",
    "reader.committed = max(reader.committed, request.next)",
    """
    reader.credit += request.next <= reader.committed
    reader.committed = max(reader.committed, request.next)
    """,
)
mutant(
    "a commit can go back",
    "S9.4",
    "committed should be",
    "Connection.commit",
    "max(reader.committed, request.next)",
    "request.next",
)
mutant(
    "a connection has one credit for all",
    "S9.5",
    "nothing came",
    "Subscription.next_event",
    "len(self.in_flight)",
    "sum(len(each.in_flight) for each in self.connection.subscriptions.values())",
)
mutant(
    "bytes are counted when it is too late",
    "S9.6",
    "but Messages came",
    "Subscription.next_event",
    "self.in_flight and used + len(key) + len(payload) > self.credit_bytes",
    "False",
)
mutant(
    "a large message never goes",
    "S9.6",
    "nothing came",
    "Subscription.next_event",
    "self.in_flight and used + len(key) + len(payload) > self.credit_bytes",
    "used + len(key) + len(payload) > self.credit_bytes",
)
mutant(
    "no credit is a credit",
    "S9.7",
    "should have come",
    "RANGES",
    """
    {
        "auth": range(3),
        "start": range(4),
        "credit": range(1, 2**32),
        "credit_bytes": range(1, 2**32),
    }
    """,
    """
    {
        "auth": range(3),
        "start": range(4),
        "credit": range(2**32),
        "credit_bytes": range(2**32),
    }
    """,
)
mutant(
    "a commit for nothing is fine",
    "S9.8",
    "the error should be|should have come",
    "Connection.commit",
    """
    require(
        request.subscription in self.subscriptions,
        NO_SUCH_SUBSCRIPTION,
        "subscription",
        "unknown",
    )
    """,
    """
    if request.subscription not in self.subscriptions:
        return struct.pack("<Q", request.next)
    """,
)

# -- S10: lag ------------------------------------------------------------------------------------
mutant(
    "lag is not told",
    "S10.1 S11.7",
    "should have come",
    "Subscription.next_event",
    'frame(0x41, self.id, struct.pack("<QQ", offset, self.cursor))',
    'b""',
)
mutant(
    "lag is told with its last offset",
    "S10.1 S10.2",
    "to_offset should be",
    "Subscription.next_event",
    'struct.pack("<QQ", offset, self.cursor)',
    'struct.pack("<QQ", offset, self.cursor - 1)',
)
mutant(
    "who lags gets nothing ever again (as in 2020)",
    "S10.1 S10.3 S10.4",
    "nothing came",
    "Subscription.next_event",
    "self.cursor = min(head, self.until)",
    'return b""',
)
mutant(
    "lag is told at once",
    "S10.2",
    "but Lagged came",
    "Subscription.next_event",
    "head, used = topic.head(self.connection.now_us()), sum(self.in_flight.values())",
    """
    head, used = topic.head(self.connection.now_us()), sum(self.in_flight.values())
    if offset < head and offset < topic.next_offset:
        self.cursor = min(head, self.until)
        return frame(0x41, self.id, struct.pack("<QQ", offset, self.cursor))
    """,
)
mutant(
    "lag uses credit",
    "S10.3 S10.1",
    "nothing came",
    "Subscription.next_event",
    "self.cursor = min(head, self.until)",
    "self.cursor, self.in_flight[offset] = min(head, self.until), 0",
)
mutant(
    "the lag of one is everybody's",
    "S10.4",
    "should have come|should be",
    "Subscription.next_event",
    "self.cursor = min(head, self.until)",
    """
    for each in topic.readers:
        each.cursor = min(head, self.until)
    """,
)
mutant(
    "a batch loses its beginning",
    "S10.5",
    "should have come",
    "Connection.publish",
    "len(batch) <= topic.settings[CAPACITY]",
    "True",
)
