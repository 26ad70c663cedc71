"""Questions for exercise 17.2."""

import subprocess
import sys

from zaichik.learn.exercise import Exercise, Wrong, must

EXERCISE = Exercise(
    "A message that is a log",
    hints=(
        (
            "The message looks like records, so they must look different in each file. `crc32` takes a second "
            "argument, the value it begins with. If that's a number which only this file has, records of another file "
            "fail both checks."
        ),
        (
            "`os.urandom(4)` makes the number. A log that finds fewer than four bytes puts it at the beginning of the "
            "file and syncs it, before anything else. Records then begin at 4. Hand the number to whatever computes or "
            "compares a checksum: to `packed`, and from `recover` on down."
        ),
    ),
    program="tiny_log.py",
)

PROGRAM = """
from tiny_log import Log

class Disk:
    data = b""
    def read(self): return self.data
    def write(self, at, data): self.data = self.data[:at].ljust(at, bytes(1)) + data + self.data[at + len(data):]
    def sync(self): pass
    def cut(self, at): self.data = self.data[:at]

def other():
    disk = Disk()
    log = Log(disk)
    for number in range(20):
        log.write(b"an order of another shop, %d" % number)
    return disk.data
"""


def asked(program, question):
    """What the program prints; in a process of its own, since it imports the reader's file."""
    came = subprocess.run(
        [sys.executable, "-c", PROGRAM + question],
        cwd=program.resolve().parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if came.returncode:
        raise Wrong(came.stderr.strip().splitlines()[-1])
    return came.stdout.strip()


@EXERCISE.asks("a log keeps what it's given, as before", hint="Where do records begin now? And where does the log end?")
def kept(program):
    question = """
disk = Disk()
Log(disk).write(b"two apples", b"two pears")
Log(disk).write(b"a plum")
print(Log(disk).bodies, Log(disk).verdict)
"""
    must(asked(program, question), "[b'two apples', b'two pears', b'a plum'] whole", "three bodies, in two groups")


@EXERCISE.asks(
    "a torn message that is another log is torn, not damage",
    hint="There are headers in the message, with groups far along. Who says that they are of this file?",
)
def torn(program):
    question = """
disk, copy = Disk(), other()
log = Log(disk)
log.write(b"two apples")
end = len(disk.data)
log.write(copy)
disk.data = disk.data[:end] + bytes(4) + disk.data[end + 4:]
print(Log(disk).verdict, Log(disk).bodies)
"""
    must(asked(program, question), "torn [b'two apples']", "a log whose last message is a copy of another log")


@EXERCISE.asks("damage is still damage", hint="Does `judged` know what this file's checksums begin with?")
def damaged(program):
    question = """
disk = Disk()
log = Log(disk)
log.write(b"two apples")
end = len(disk.data)
log.write(b"two pears")
log.write(b"a plum")
disk.data = disk.data[:end] + bytes(4) + disk.data[end + 4:]
print(Log(disk).verdict, Log(disk).bodies)
"""
    must(asked(program, question), "damaged [b'two apples']", "a group that is damaged, with another one behind it")
