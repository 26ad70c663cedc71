"""As in 2020: a window that is longer than the retention.

Run it after "Type: forgetting".
"""

from types import SimpleNamespace as Wanted

from readers import Reader
from settings import FOREVER, TTL_MS, WINDOW_MS
from topics import Topic

WANTED = Wanted(
    id=1, credit=99, credit_bytes=999, start=0, value=0, until=FOREVER
)
topic = Topic()
topic.configure({TTL_MS: 1000, WINDOW_MS: 60_000})
for run, now in (("first", 0), ("second", 5_000_000)):
    _, dropped = topic.publish([(b"door", b"ring")], now)
    topic.expire(now)
    reader = Reader(topic, WANTED, lambda: None)
    came = reader.next_event(now) is not None
    print(f"the {run} run: published 1, dropped {dropped.bit_count()};",
          "a reader gets", "1" if came else "nothing")  # fmt: skip
