"""A hundred orders, each acknowledged. Then somebody pulls the plug.

Run it after "Type: a log".
"""

from experiments.plug import Disk
from tiny_log import Log

disk = Disk()
log = Log(disk)
acknowledged = []
for number in range(100):
    order = b"order %d: two apples" % number
    log.write(order)
    acknowledged.append(order)
disk.pull_the_plug()

there = set(Log(disk).bodies)
print("acknowledged:", len(acknowledged))
print("still there: ", sum(order in there for order in acknowledged))
