"""A thousand times: the plug is pulled while a group is being written.

Run it after "Type: where the group begins".
"""

from collections import Counter

from experiments.plug import Disk
from tiny_log import Log, unpacked

found: Counter[str] = Counter()
lost = behind = 0
for seed in range(1000):
    disk = Disk(seed)
    log = Log(disk)
    log.write(b"two apples", b"two pears")
    acknowledged = list(log.bodies)
    disk.sync, sync = lambda: None, disk.sync  # type: ignore[method-assign]
    log.write(*(b"%d apples! " % number * 50 for number in range(6)))
    disk.pull_the_plug()
    disk.sync = sync  # type: ignore[method-assign]

    data = disk.read()
    after = Log(disk)
    found[after.verdict] += 1
    lost += after.bodies[:2] != acknowledged
    end = len(disk.read())  # the rest is cut off
    behind += any(unpacked(data, at) for at in range(end + 1, len(data)))
for verdict, count in sorted(found.items()):
    print(f"{verdict}: {count}")
print("good records behind bad bytes:", behind)
print("acknowledged orders lost:", lost)
