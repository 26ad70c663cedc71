"""The options of `zaichik serve` that record all it does, and the recording while it serves."""

import argparse
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from zaichik.broker.clock import Clock, SystemClock
from zaichik.broker.settings import BrokerSettings
from zaichik.console import quantities
from zaichik.console.failure import Failure
from zaichik.console.flight_file import FlightFile, opened
from zaichik.flight.recorder import RecordedBroker
from zaichik.net.listener import Listener
from zaichik.serving.server import Server

DEFAULT_LIMIT = 256 * 1024 * 1024


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options to `zaichik serve`."""
    group = parser.add_argument_group("flight recorder")
    group.add_argument(
        "--record",
        metavar="FILE",
        type=Path,
        help="write all that clients send, and when, to a new file, for `zaichik replay`; the files of the last three "
        "runs stay as FILE.1 to FILE.3",
    )
    group.add_argument(
        "--record-masked",
        action="store_true",
        help="write other bytes in place of payloads: as many, and the same for the same payload",
    )
    group.add_argument(
        "--record-limit",
        metavar="SIZE",
        type=quantities.size,
        help="the most that a file may have; there the recording ends, and the broker goes on (default: 256MiB)",
    )


def check(arguments: argparse.Namespace) -> None:
    """Refuse options that do not fit together.

    Raises:
        argparse.ArgumentTypeError: the sentence says which.
    """
    for option, value in (("--record-masked", arguments.record_masked), ("--record-limit", arguments.record_limit)):
        if value and arguments.record is None:
            raise argparse.ArgumentTypeError(f"{option} needs --record FILE")
    if arguments.record is not None and arguments.data is not None:
        raise argparse.ArgumentTypeError(
            "--record cannot be used with --data: what the disk of durable topics answers is not recorded yet"
        )


async def listening(host: str, port: int, settings: BrokerSettings, clock: Clock | None) -> Server:
    """Returns a server at the address whose broker can be recorded.

    Raises:
        OSError: the address is not available.
    """
    return Server(RecordedBroker(settings, clock or SystemClock()), await Listener.open(host, port))


def recording(server: Server, arguments: argparse.Namespace) -> AbstractContextManager[None]:
    """Returns a block in which what the server's broker does is recorded, if that was asked for.

    Raises:
        Failure: there can be no such file.
    """
    if not isinstance(server.broker, RecordedBroker):
        return nullcontext()
    try:
        limit = DEFAULT_LIMIT if arguments.record_limit is None else arguments.record_limit
        file = FlightFile(opened(arguments.record), limit)
    except OSError as error:
        raise Failure(f"cannot record to {arguments.record}: {error.strerror or error}") from error
    return _recorded(server.broker, file, is_masked=arguments.record_masked)


@contextmanager
def _recorded(broker: RecordedBroker, file: FlightFile, *, is_masked: bool) -> Iterator[None]:
    broker.begin(file.write, is_masked=is_masked)
    try:
        yield
    finally:
        broker.tape.end()
        file.close()
