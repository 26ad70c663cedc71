"""Brokers that are wrong about credit and lag (S9 and S10)."""

from learn_mutant import declaring

MUTANTS = []
mutant = declaring(MUTANTS)

# -- S9: commit ------------------------------------------------------------------------------------------------
mutant(
    "credit is not looked at",
    "S9.1",
    "and yet Messages came",
    "len(self.in_flight) >= self.credit or used",
    "used",
)
mutant(
    "one message too many",
    "S9.1",
    "2 in flight, credit 1, and yet Messages came",
    "len(self.in_flight) >= self.credit or used",
    "len(self.in_flight) > self.credit or used",
)
mutant(
    "a commit settles one message",
    "S9.2",
    "nothing came",
    "reader.in_flight = {at: size for at, size in reader.in_flight.items() if at >= reader.committed}",
    "reader.in_flight.pop(min(reader.in_flight, default=0), None)",
)
mutant(
    "the future can be committed",
    "S9.3",
    "should have come",
    "require(request.next <= reader.cursor,",
    "require(True,",
)
mutant(
    "a commit of nothing buys a message (as in 2020)",
    "S9.4",
    "and yet Messages came|should be",
    "reader.committed = max(reader.committed, request.next)\n",
    """reader.credit += request.next <= reader.committed
        reader.committed = max(reader.committed, request.next)
""",
)
mutant(
    "a commit can go back",
    "S9.4",
    "committed should be",
    "reader.committed = max(reader.committed, request.next)\n",
    "reader.committed = request.next\n",
)
mutant(
    "a connection has one credit for all",
    "S9.5",
    "nothing came",
    "len(self.in_flight) >= self.credit or used",
    "sum(len(each.in_flight) for each in self.connection.subscriptions.values()) >= self.credit or used",
)
mutant(
    "bytes are counted when it is too late",
    "S9.6",
    "and yet Messages came",
    "if self.in_flight and used + len(key) + len(payload) > self.credit_bytes:",
    "if False:",
)
mutant(
    "a large message never goes",
    "S9.6",
    "nothing came",
    "if self.in_flight and used +",
    "if used +",
)
mutant(
    "no credit is a credit",
    "S9.7",
    "should have come",
    '"credit": range(1, 2**32), "credit_bytes": range(1, 2**32)',
    '"credit": range(2**32), "credit_bytes": range(2**32)',
)
mutant(
    "a commit for nothing is fine",
    "S9.8",
    "the error should be|should have come",
    """        require(request.subscription in self.subscriptions, NO_SUCH_SUBSCRIPTION, "subscription", "unknown")
        reader = self.subscriptions[request.subscription]
""",
    """        if request.subscription not in self.subscriptions:
            return struct.pack("<Q", request.next)
        reader = self.subscriptions[request.subscription]
""",
)

# -- S10: lag --------------------------------------------------------------------------------------------------
mutant(
    "lag is not told",
    "S10.1 S11.7",
    "should have come",
    'return frame(0x41, self.id, struct.pack("<QQ", offset, self.cursor))',
    'return b""',
)
mutant(
    "lag is told with its last offset",
    "S10.1 S10.2",
    "to_offset should be",
    'return frame(0x41, self.id, struct.pack("<QQ", offset, self.cursor))',
    'return frame(0x41, self.id, struct.pack("<QQ", offset, self.cursor - 1))',
)
mutant(
    "who lags gets nothing ever again (as in 2020)",
    "S10.1 S10.3 S10.4",
    "nothing came",
    "            self.cursor = min(head, self.until)\n",
    '            return b""\n',
)
mutant(
    "lag is told at once",
    "S10.2",
    "and yet Lagged came",
    "        if len(self.in_flight) >= self.credit or",
    """        if offset < head and offset < topic.next_offset:
            self.cursor = min(head, self.until)
            return frame(0x41, self.id, struct.pack("<QQ", offset, self.cursor))
        if len(self.in_flight) >= self.credit or""",
)
mutant(
    "lag uses credit",
    "S10.3 S10.1",
    "nothing came",
    "            self.cursor = min(head, self.until)\n",
    "            self.cursor, self.in_flight[offset] = min(head, self.until), 0\n",
)
mutant(
    "the lag of one is everybody's",
    "S10.4",
    "should have come|should be",
    "            self.cursor = min(head, self.until)\n",
    """            for each in topic.readers:
                each.cursor = min(head, self.until)
""",
)
mutant(
    "a batch loses its beginning",
    "S10.5",
    "should have come",
    "require(len(batch) <= topic.settings[CAPACITY],",
    "require(True,",
)
