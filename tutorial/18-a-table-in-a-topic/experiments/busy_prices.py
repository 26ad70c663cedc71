"""Two prices, changed often.

Run it after "Type: a hole".
"""

import tracemalloc

from experiments.copies import Copy
from tables import Table

tracemalloc.start()
topic = Table()
for number in range(50_000):
    topic.publish([(b"apple", b"%d" % number), (b"pear", b"45")], number)
late = Copy(topic)
late.read()
size, _ = tracemalloc.get_traced_memory()
print("late:  ", late)
print("memory:", "over" if size > 2**20 else "under", "1 MiB")
