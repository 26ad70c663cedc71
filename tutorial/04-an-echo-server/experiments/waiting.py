"""Where a client is whose turn has not come: what `ss` has to say."""

import subprocess
import time

from zaichik.learn.lab import HELLO, running

with running() as broker:
    silent = broker.connect()
    print("the first client connects, and says nothing")

    eager = broker.connect()
    eager.sendall(HELLO)
    print("the second client says Hello,", len(HELLO), "bytes")
    time.sleep(0.2)  # so that a broker which reads has read it

    ss = ["ss", "--no-header", "--tcp", "--numeric", "state", "established"]
    ours = f"sport = :{broker.port}"
    told = subprocess.run([*ss, ours], capture_output=True, text=True)
    waiting = sum(int(line.split()[0]) for line in told.stdout.splitlines())
    print("bytes that wait at the broker:", waiting)
