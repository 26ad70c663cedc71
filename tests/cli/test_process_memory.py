"""When unused memory is returned to the system; that it really is, tests/chaos/test_memory.py
shows.
"""

import ctypes
import gc
import os
import resource

import anyio
import pytest

from zaichik.cli import process_memory
from zaichik.cli.process_memory import WORTH_BYTES, Unused

pytestmark = pytest.mark.anyio
MUCH = WORTH_BYTES


class Allocator:
    """Has so much unused memory, and can return all but so much of it."""

    def __init__(self, unused=0, stuck=0):
        self.unused = unused
        self.stuck = stuck
        self.trims = 0

    def unused_bytes(self):
        return self.unused

    def trim(self):
        self.unused = min(self.unused, self.stuck)
        self.trims += 1


def test_only_memory_that_became_unused_counts():
    allocator = Allocator(unused=5 * MUCH)
    unused = Unused(allocator)
    assert not unused.is_much()
    allocator.unused += MUCH - 1
    assert not unused.is_much()
    allocator.unused += 1
    assert unused.is_much()


def test_memory_used_again_may_become_unused_again():
    allocator = Allocator(unused=5 * MUCH)
    unused = Unused(allocator)
    allocator.unused = 0
    assert not unused.is_much()
    allocator.unused = MUCH
    assert unused.is_much()


def test_memory_that_a_trim_cannot_return_is_not_trimmed_again():
    allocator = Allocator(stuck=3 * MUCH)
    unused = Unused(allocator)
    allocator.unused = 7 * MUCH
    assert unused.is_much()
    unused.give_back()
    assert allocator.unused == 3 * MUCH
    assert not unused.is_much()


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="the C library is no glibc, or an old one"
)
def test_glibc_reports_unused_memory_and_returns_it():
    """64 MiB in pieces, of which every tenth stays: the others are holes in the heap."""
    allocator = process_memory.Glibc()
    pieces = [bytearray(64 * 1024) for _ in range(1024)]
    used = allocator.unused_bytes()
    pieces[:] = pieces[::10]
    assert allocator.unused_bytes() - used > MUCH
    allocator.trim()
    assert allocator.unused_bytes() - used < MUCH


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="the C library is no glibc, or an old one"
)
def test_a_broker_out_of_descriptors_can_still_look():
    allocator = process_memory.Glibc()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            os.open("/proc/self/statm", os.O_RDONLY)
        assert allocator.unused_bytes() > 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_unused_memory_is_checked_for_repeatedly(monkeypatch):
    monkeypatch.setattr(process_memory, "LOOK_SECONDS", 0.001)
    allocator = Allocator()
    monkeypatch.setattr(process_memory, "Glibc", lambda: allocator)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(process_memory.give_back_forever)
            for number in (1, 2):
                await anyio.wait_all_tasks_blocked()
                allocator.unused = MUCH
                while allocator.trims < number:
                    await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    "error", [AttributeError("malloc_trim"), FileNotFoundError("/proc/self/statm")]
)
async def test_where_memory_cannot_be_returned_nothing_is_done(monkeypatch, error):
    def no_glibc():
        raise error

    monkeypatch.setattr(process_memory, "Glibc", no_glibc)
    with anyio.fail_after(60):
        await process_memory.give_back_forever()


def test_what_exists_when_a_broker_begins_is_spared_from_collections():
    try:
        process_memory.spare_collector()
        assert gc.get_freeze_count() > 10_000
    finally:
        gc.unfreeze()
