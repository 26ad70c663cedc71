"""`zaichik legacy`: a gateway for clients of the original, written in Rust in 2020.

Let clients of the original zaichik, written in Rust in 2020, use the broker. They need no change:
to them, the gateway is the original's server. It listens on this machine only, and everyone who
reaches it acts as one user, the one whose login the gateway has, because the original's protocol
knows no users.

The protocol has no frame for an error. So a command that the broker refuses is dropped, and
reported here. If the connection to the broker is lost, the gateway tries to reconnect, and its
clients wait. SIGTERM stops it with exit code 0, Ctrl-C with 130.

Examples:
  zaichik legacy                            # at 127.0.0.1:8890
  PORT=8890 target/debug/examples/echo      # an example of the original
  zaichik legacy --port 9000 --connect zaichiks://broker.example:8889
  zaichik legacy --port 0 --json            # a free port; {"host": ..., ...}
  zaichik legacy --log-level warning        # only what was dropped
"""

import os

import anyio
from rich.console import Console
from rich.text import Text

from zaichik.apps.legacy.gateway import Gateway
from zaichik.cli import address, connecting, default_ports, screen, serve_log
from zaichik.cli.arguments import Namespace, argument
from zaichik.cli.failure import listening
from zaichik.cli.signals import stopping

ARGUMENTS = (
    argument(
        "--port PORT",
        "where to listen, on 127.0.0.1; 0 takes a free port",
        address.port,
        default=default_ports.LEGACY,
    ),
    serve_log.LEVEL,
    argument("--json", "when ready, print one JSON object: host, port, pid, broker"),
    connecting.ADDRESS,
    connecting.RECONNECT,
)


async def run(arguments: Namespace, console: Console) -> None:
    """Serve until a signal comes, or the broker is gone. Returns the exit code."""
    stop = anyio.Event()
    async with connecting.connected(arguments, "legacy") as client:
        with listening(arguments.port, "zaichik legacy --port PORT", "a broker"):
            gateway = await Gateway.listening(client, arguments.port)
        # Signals are caught before the announcement: a program that waits for it may send one right
        # away.
        with serve_log.written(arguments):
            async with stopping(lambda _: stop.set()) as tasks:
                tasks.start_soon(gateway.run)
                _announce(gateway, arguments, console)
                await stop.wait()


def _announce(gateway: Gateway, arguments: Namespace, console: Console) -> None:
    here, broker = address.Address(gateway.host, gateway.port), str(arguments.connect)
    if arguments.json:
        screen.print_json(
            {"host": here.host, "port": here.port, "pid": os.getpid(), "broker": broker}
        )
    else:
        text = Text.assemble(
            "serving clients of the original at ",
            (str(here), "bold"),
            f", for the broker at {broker}",
        )
        console.print(text, soft_wrap=True)
