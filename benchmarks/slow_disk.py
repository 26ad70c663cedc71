"""A broker with durable topics on a slow disk.

python -m benchmarks.slow_disk PORT FOLDER SECONDS
"""

import importlib.util
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio

from zaichik.server.running import serve
from zaichik.storage import store
from zaichik.storage.disk import PosixDisk


class SlowDisk(PosixDisk):
    """A disk that blocks its thread before each write of a log.

    Attributes:
        seconds: how long.
    """

    seconds = 1.0

    def write(self, path: str, at: int, pieces: Sequence[bytes]) -> None:
        """See `Disk`."""
        time.sleep(self.seconds)
        super().write(path, at, pieces)


def main(port: str, folder: str, seconds: str) -> None:
    """Serve until the process is ended."""
    SlowDisk.seconds = float(seconds)
    store.PosixDisk = SlowDisk  # type: ignore[attr-defined]
    uvloop = {"use_uvloop": importlib.util.find_spec("uvloop") is not None}  # as `zaichik serve`
    anyio.run(partial(serve, port=int(port), data=Path(folder)), backend_options=uvloop)


if __name__ == "__main__":
    main(*sys.argv[1:])
