"""As in 2020: two places decide whether a message is too old.

Run it after "Type: one rule, asked everywhere".
"""

from types import SimpleNamespace as Wanted

from layouts import MESSAGES_TYPE
from readers import Reader
from settings import FOREVER, TTL_MS
from topics import Topic

TTL_US = 1000


class TopicOf2020(Topic):
    """Cleans up what is *older* than its retention."""

    def expire(self, now: int) -> None:
        """Here the last microsecond still counts."""
        while self.row and now - self.row[0][0] > TTL_US:
            del self.row[0]


class ReaderOf2020(Reader):
    """Delivers what is *younger* than the retention."""

    def next_event(self, now: int) -> bytes | None:
        """And here it doesn't."""
        self.topic.expire(now)
        if self.topic.row and now - self.topic.row[0][0] >= TTL_US:
            return None
        return super().next_event(now)


wanted = Wanted(
    id=1, credit=9, credit_bytes=99, start=0, value=0, until=FOREVER
)
for kinds in ((TopicOf2020, ReaderOf2020), (Topic, Reader)):
    print("As in 2020" if kinds[0] is TopicOf2020 else "Yours")
    for age in (TTL_US - 1, TTL_US, TTL_US + 1):
        topic = kinds[0]()
        topic.configure({TTL_MS: 1})
        topic.publish([(b"", b"it rains")], 0)
        reader = kinds[1](topic, wanted, lambda: None)
        event = reader.next_event(age)
        is_sent = event is not None and event[4] == MESSAGES_TYPE
        told = "delivered" if is_sent else "not delivered"
        kept = "still counted" if topic.row else "dropped"
        print(f"  after {age:4} µs of {TTL_US}: {told}, {kept}")
