"""Starts brokers of this project by forking itself, which takes a hundredth of what a new
interpreter does.

A line on standard input asks for something, a line on standard output answers: `start PORT FOLDER
MUTANT` with the number of the process, `kill NUMBER` once that is gone. Without a mutant the broker
is right. Not a module of tests.
"""

import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path

import anyio
from mutants_killed import MUTANTS

from zaichik.server import persistence  # noqa: F401 (so that no broker has to import them)
from zaichik.server.running import serve

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}


async def broker(port, folder):
    await serve(port=port, data=Path(folder))


def start(port, folder, name):
    """The number of a new process with a broker."""
    pid = os.fork()
    if pid:
        return pid
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        with BY_NAME[name].in_force() if name else nullcontext():
            anyio.run(broker, port, folder)
    finally:
        os._exit(1)


def main():
    running = set()
    try:
        for line in sys.stdin:
            word, _, rest = line.rstrip("\n").partition(" ")
            if word == "start":
                port, folder, name = rest.split(" ", 2)
                pid = start(int(port), folder, name)
                running.add(pid)
                print(pid, flush=True)
            else:
                end(int(rest))
                running.discard(int(rest))
                print("gone", flush=True)
    finally:
        for pid in running:
            end(pid)


def end(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
