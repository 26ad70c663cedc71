"""A broker's process returns freed memory to the system and spares loaded modules a collection.

glibc keeps nearly all of it: `free` returns only memory at the end of the heap, or blocks larger
than any freed before. A broker whose messages have expired would stay as large as it ever was.
`malloc_trim` returns every page that is free. It takes 0.1 to 0.2 ms for each MiB that it returns,
and next to nothing where little is free; so it is called when there is much to return.

Only the program does this: the library does not decide how a process that embeds a broker uses its
memory.
"""

import ctypes
import gc
import os
from typing import Protocol

import anyio

LOOK_SECONDS = 2.0
WORTH_BYTES = 16 * 1024 * 1024  # that have become unused since the last trim

_PAGE = os.sysconf("SC_PAGE_SIZE")
_STATM_BYTES = 200  # it is one line of seven numbers


class Allocator(Protocol):
    """The memory allocator of this process."""

    def unused_bytes(self) -> int:
        """Returns the bytes in the machine's memory that are not allocated to anything.

        Code, stacks and the like are counted, too: only a change of the number means something.
        """

    def trim(self) -> None:
        """Return free memory to the system."""


class _Mallinfo(ctypes.Structure):
    """`struct mallinfo2` of malloc.h."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


class Glibc:
    """The allocator of most Linux systems, since glibc 2.33.

    There is one for the life of a process.

    Raises:
        AttributeError: the C library of this process is another one.
        OSError: there is no /proc.
    """

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self._trim, self._mallinfo = library.malloc_trim, library.mallinfo2
        self._trim.argtypes = [ctypes.c_size_t]
        self._mallinfo.restype = _Mallinfo
        # Kept open: a broker may run out of descriptors, and must not end because of that.
        self._statm = os.open("/proc/self/statm", os.O_RDONLY)

    def unused_bytes(self) -> int:
        """Returns what is resident, less what is allocated from the heaps and beside them."""
        resident = int(os.pread(self._statm, _STATM_BYTES, 0).split()[1]) * _PAGE
        info = self._mallinfo()
        return resident - int(info.uordblks) - int(info.hblkhd)

    def trim(self) -> None:
        """Return the free pages of all heaps, leaving nothing on top."""
        self._trim(0)


class Unused:
    """Decides when to trim.

    Args:
        allocator: of this process.
    """

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self._least = allocator.unused_bytes()  # since the last trim

    def is_much(self) -> bool:
        """Returns whether to trim: memory has become unused, or something beside the heap grew."""
        unused = self._allocator.unused_bytes()
        self._least = min(self._least, unused)
        return unused - self._least >= WORTH_BYTES

    def give_back(self) -> None:
        """Trim.

        Unused memory that is left then counts as used, so that it is not trimmed in vain again and
        again.
        """
        self._allocator.trim()
        self._least = self._allocator.unused_bytes()


def spare_collector() -> None:
    """Exempt what exists now, the modules, from garbage collection: it stays until the end.

    A full collection visits every object that is left, and nothing else goes on meanwhile.
    """
    gc.collect()
    gc.freeze()


async def give_back_forever() -> None:
    """Return unused memory to the system until cancelled.

    Returns at once where the C library cannot do that.
    """
    try:
        unused = Unused(Glibc())
    except (AttributeError, OSError):
        return
    while True:
        await anyio.sleep(LOOK_SECONDS)
        if unused.is_much():
            # The event loop goes on meanwhile, unless it allocates something large.
            await anyio.to_thread.run_sync(unused.give_back)
