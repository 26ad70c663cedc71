"""Customers who come, and are deleted when they go.

Run it after "Type: deleted on purpose".
"""

from experiments.copies import Copy
from tables import Table

DAY_US = 86_400_000_000

topic = Table()
for number in range(1000):
    customer = b"customer %d" % number
    topic.publish([(customer, b"is here")], 0)
    topic.publish([(customer, b"")], 0)
topic.publish([(b"the last one", b"is here")], 2 * DAY_US)
here = Copy(topic)
here.read(2 * DAY_US)
late, count = Copy(topic), 0
while late.reader.next_event(2 * DAY_US):
    count += 1
print("customers here:", len(here))
print("messages for a late reader:", count)
