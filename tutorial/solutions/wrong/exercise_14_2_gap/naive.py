"""A topic that is too simple to be wrong: it never forgets a thing."""

CAPACITY, TTL_US, WINDOW_US = 2, 2000, 2000
CREDIT = {"A": 1, "B": 2, "C": 2}  # of its readers
UNTIL = {"C": 1}  # where one of them ends
Told = tuple[str, int, int] | None


class Naive:
    """One topic: the list of all messages that it ever stored."""

    def __init__(self) -> None:
        self.all: list[tuple[int, bytes]] = []  # when it came, its key
        self.cursors = dict.fromkeys(CREDIT, 0)
        self.ended: list[str] = []
        self.in_flight: dict[str, list[int]] = {who: [] for who in CREDIT}

    def publish(self, key: bytes, now: int) -> bool:
        """Whether a message of this key is stored, and not dropped."""
        opened = [came for came, other in self.all if key and other == key]
        if opened and now < opened[-1] + WINDOW_US:
            return False
        self.all.append((now, key))
        return True

    def gone(self, now: int) -> int:
        """How many messages can't be read any more: the oldest."""
        expired = [came for came, _ in self.all if now >= came + TTL_US]
        return max(len(expired), len(self.all) - CAPACITY)

    def read(self, who: str, now: int) -> Told:
        """What a reader is told next; None if it has to wait."""
        cursor, gone = self.cursors[who], self.gone(now)
        until = UNTIL.get(who, cursor + len(self.all) + 1)
        if cursor >= until:
            if who in self.ended:
                return None
            self.ended.append(who)
            return "ended", 1, cursor
        if len(self.in_flight[who]) == CREDIT[who]:
            return None
        if cursor < gone:
            self.cursors[who] = gone  # Fails at: a gap that goes on beyond the `until` is found
            return "lagged", cursor, gone
        if cursor == len(self.all):
            return None
        self.cursors[who] += 1
        self.in_flight[who].append(cursor)
        return "message", cursor, self.all[cursor][0]

    def commit(self, who: str) -> int:
        """Settle the oldest in flight. Returns the offset after it."""
        in_flight = self.in_flight[who]
        return in_flight.pop(0) + 1 if in_flight else self.cursors[who]
