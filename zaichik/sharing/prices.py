"""What things cost in bytes of memory beside the bytes that clients send: the prices by which the broker counts.

A batch of one empty message is 20 bytes on the wire and fourteen times as many in memory. A budget that counted only
what came would be off by as much, so everything that clients can make the broker keep has a price, and everything that
is kept is counted by it. The prices were measured on CPython 3.11 as growth of resident memory for each of a hundred
thousand, and rounded up; `python benchmarks/bound.py` holds them against a running broker.
"""

ENTRY = 320  # a stored batch: the objects around its bytes
KEY = 200  # an open compaction window, or a winner that the journal knows, without the key itself
TOPIC = 1_500
CONNECTION = 24 * 1024  # socket, two tasks, decoder, manager
SUBSCRIPTION = 4 * 1024  # with the frames in flight, of which 16 are told apart
NAME = 1_500  # a named position
PRODUCER = 20 * 1024  # with 64 answers
