"""A reader that was away while a price was deleted.

Run it after "Type: gone, after a day".
"""

from experiments.copies import Copy
from tables import Table

DAY_US = 86_400_000_000

topic = Table()
copy = Copy(topic)
topic.publish([(b"apple", b"30"), (b"pear", b"45")], 0)
copy.read()
topic.publish([(b"pear", b"")], 0)  # it is on holiday
topic.publish([(b"apple", b"35")], 0)
topic.publish([(b"plum", b"20")], 2 * DAY_US)
copy.read(2 * DAY_US)  # it is back
late = Copy(topic)
late.read(2 * DAY_US)
print("late:", late)
print("back:", copy)
