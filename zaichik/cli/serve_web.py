"""`zaichik serve --web`: the page of this broker, served by a program of its own.

So what browsers do, and whatever becomes of the page, never takes time from the broker. The program
ends when its standard input closes, which it does however the broker ends. It has no secret of
anybody: if the broker asks for a login, each browser logs in for itself.
"""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from zaichik.cli import address, serve_access
from zaichik.cli.arguments import Namespace, argument
from zaichik.cli.commands.web import DEFAULT_PORT
from zaichik.client.endpoint import Endpoint
from zaichik.server.server import Server

logger = logging.getLogger("zaichik.console.serve_web")

LOCAL = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
STDERR = 2
END_S = 2.0  # in which the page's program has ended

PAGE = argument(
    "--web [PORT]",
    "also serve a page for browsers on this machine, as `zaichik web` does, on this port (default: "
    "%(const)s)",
    address.port,
    const=DEFAULT_PORT,
)


@contextmanager
def page(server: Server, arguments: Namespace) -> Iterator[None]:
    """Shows a listening broker's page during the block, if it was asked for."""
    if arguments.web is None:
        yield
        return
    pin = serve_access.pin(server)
    broker = Endpoint(
        LOCAL.get(server.host, server.host), server.port, pin is not None, (pin,) if pin else ()
    )
    command = [
        sys.executable,
        "-m",
        "zaichik",
        "web",
        "--connect",
        broker.line,
        "--port",
        str(arguments.web),
    ]
    command += ["--log-format", arguments.log_format, "--log-level", arguments.log_level]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("ZAICHIK_")
    }
    try:
        process = subprocess.Popen(  # noqa: S603 (our own program)
            [*command, "--until-stdin-closes"],
            stdin=subprocess.PIPE,
            stdout=STDERR,  # the broker's own standard output may be read by a program
            env=environment,
            start_new_session=True,  # Ctrl-C is for the broker, which ends the page when it is done
        )
    except OSError as error:
        logger.warning("there is no page: %s", error)
        yield
        return
    is_ending = threading.Event()
    watch = threading.Thread(target=_watch, args=(process, is_ending), name="page", daemon=True)
    watch.start()
    with process:
        try:
            yield
        finally:
            is_ending.set()
            if process.stdin is not None:
                process.stdin.close()  # at which it ends
            watch.join(END_S)
            if watch.is_alive():
                process.kill()


def _watch(process: subprocess.Popen[bytes], is_ending: threading.Event) -> None:
    """Say it when the page's program ends before it is to.

    It is not started again: it would end again.
    """
    code = process.wait()
    if not is_ending.is_set():
        logger.error("the page has ended with exit code %d; the broker goes on without it", code)
