"""Messages to systemd from a service of `Type=notify` (the protocol is that of sd_notify(3))."""

import os
import socket
from contextlib import suppress

READY, STOPPING = "READY=1", "STOPPING=1"
SECONDS = 1.0  # that it may take to tell; the broker goes on without


def tell(state: str) -> None:
    """Tell the service manager, if there is one, that the broker is ready, or is stopping.

    A failure changes nothing.

    Args:
        state: `READY` or `STOPPING`.
    """
    name = os.environ.get("NOTIFY_SOCKET", "")
    if name:
        with suppress(OSError, ValueError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.settimeout(SECONDS)
            # A name with an @ before it is an abstract address.
            out.sendto(state.encode(), "\0" + name[1:] if name.startswith("@") else name)
