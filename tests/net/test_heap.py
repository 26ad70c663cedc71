import platform
import subprocess
import sys

import pytest

# Receives as `recv` does it, and cuts what came as a decoder does: three blocks of a large
# message's size, freed again.
PROGRAM = """
import resource
from zaichik.net.heap import keep_freed_memory
if {keeps}:
    keep_freed_memory()
    keep_freed_memory()
def receive():
    received = b"x" + bytes({size})
    frame = received[1:]
    return frame[1:]
for _ in range(10):
    receive()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    receive()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 100)
"""


def faults(size, *, keeps=True):
    """Pages that the system has to map for each message."""
    program = PROGRAM.format(size=size, keeps=keeps)
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return int(done.stdout)


@pytest.mark.unmeasured
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="these are the rules of glibc")
@pytest.mark.parametrize("size", [64 * 1024, 256 * 1024, 1024 * 1024])
def test_memory_that_was_freed_is_used_again(size):
    assert faults(size) == 0


@pytest.mark.unmeasured
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="these are the rules of glibc")
def test_without_it_each_message_has_the_system_map_all_its_pages():
    """Or else it could go."""
    assert faults(1024 * 1024, keeps=False) >= 256
