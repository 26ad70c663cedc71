"""The memory overhead of everything that clients can make the broker hold.

It is in bytes beyond those that clients send. A batch of one empty message is 20 bytes on the wire
and several times as many in memory. A budget that counted only bytes received would be off by that
factor, so each kind of object has a price, and is charged at that price.

The prices were measured on CPython 3.11 as the growth of resident memory per object, with thousands
of each, and rounded up. `python -m benchmarks.bound` compares their sum with a running broker.
"""

# A stored batch: the object of its bytes, and its row in three columns, which may be half empty.
ENTRY = 128
# A batch that waits for a disk, without its bytes: what is to be written, and the answer to come.
WAITING = 1_250
# An open compaction window, or a winner that the journal remembers, without the key itself.
KEY = 200
TOPIC = 1_500
CONNECTION = 20 * 1024  # socket, one task or two, decoder, manager
# With its frames in flight, of which 16 are tracked, and the times of the latest.
SUBSCRIPTION = 6 * 1024
NAME = 1_500  # a named position
# A batch that was refused, or of which something was compacted, without its bytes (EXP-1).
DECISION = 600
PRODUCER = 20 * 1024  # with 64 replies
