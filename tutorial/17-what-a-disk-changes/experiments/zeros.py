"""The file has grown, the plug is pulled, and no data has come: zeros.

Run it after "Type: a checksum".
"""

from experiments.plug import Disk
from tiny_log import Log

disk = Disk()
log = Log(disk)
for _ in range(3):
    log.write(b"two apples")
disk.write(len(disk.read()), bytes(32))
print("orders:", len(Log(disk).bodies), Log(disk).bodies[-1])
