"""Freed memory stays with the process for the next message.

Otherwise it would go back to the system each time.

Messages come and go, and each takes some fresh memory: what was received, the frame cut out of it,
the payload cut out of that. At first glibc asks the system for every block above 128 KiB, and
returns it when it is freed; and it returns whatever is free at the end of its heap. Each page of
the next block must then be mapped and cleared again. That takes longer than everything else there
is to do for a large message: a reader of messages of 64 KiB spends three quarters of its time on
it.

glibc learns: when a block is freed that came from the system, blocks of that size are no longer
returned, nor is twice as much at the end of the heap (mallopt(3), M_MMAP_THRESHOLD). But it learns
only when a program happens to free a large block whole. So one is freed here. Other C libraries
have other rules, and are not affected.
"""

from functools import cache

# In bytes. A batch is at most 1 MiB, unless the broker allows more.
LARGEST = 4 * 1024 * 1024


@cache
def keep_freed_memory() -> None:
    """Have the C library keep freed blocks of up to `LARGEST` bytes.

    Only the first call does anything.
    """
    # It comes as zeros from the system, and none of it is ever touched. So it takes no memory.
    bytes(LARGEST)
