"""One bit of a log is flipped: every bit, one after the other.

Run it after "Type: two checksums".
"""

from collections import Counter

from experiments.plug import Disk
from tiny_log import Log

disk = Disk()
log = Log(disk)
for number in range(10):
    last_group = len(disk.read())
    log.write(b"%d apples" % number, b"%d pears" % number)
good, bodies = disk.read(), log.bodies

found: dict[str, Counter[str]] = {"in the last group": Counter()}
found = {"before the last group": Counter(), **found}
for bit in range(8 * len(good)):
    data = bytearray(good)
    data[bit // 8] ^= 1 << bit % 8
    disk.cut(0)
    disk.write(0, bytes(data))
    after = Log(disk)
    verdict = getattr(after, "verdict", "nothing said")
    if after.bodies != bodies[: len(after.bodies)]:
        verdict = "WRONG MESSAGES"
    where = "before the" if bit // 8 < last_group else "in the"
    found[f"{where} last group"][verdict] += 1
for where, verdicts in found.items():
    print(f"{where}: {', '.join(f'{n} x {v}' for v, n in verdicts.items())}")
