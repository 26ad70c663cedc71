"""The options of `zaichik serve` that record all it does, and the recording while it serves."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager, nullcontext
from pathlib import Path

from anyio import to_thread

from zaichik.apps.flight.recorder import RecordedBroker
from zaichik.base.clock import Clock, SystemClock
from zaichik.cli import quantities
from zaichik.cli.arguments import Namespace, WrongUsage, argument, group
from zaichik.cli.failure import Failure
from zaichik.cli.flight_file import FlightFile, opened
from zaichik.core.settings import BrokerSettings
from zaichik.net.listener import Listener
from zaichik.server.server import Server
from zaichik.storage.store import Store

DEFAULT_LIMIT = 256 * 1024 * 1024

OPTIONS = group(
    "flight recorder",
    argument(
        "--record FILE",
        "write all that clients send, and when, to a new file for `zaichik replay`; the files of "
        "the last three "
        "runs stay as FILE.1 to FILE.3",
        Path,
    ),
    argument(
        "--record-masked",
        "replace each payload by other bytes of the same length, always the same for the same "
        "payload",
    ),
    argument(
        "--record-limit SIZE",
        "largest size of the file; then the recording ends, and the broker goes on (default: "
        "256MiB)",
        quantities.size,
    ),
)


def check(arguments: Namespace) -> None:
    """Refuse options that do not fit together.

    Raises:
        WrongUsage: the sentence says which.
    """
    for option, value in (
        ("--record-masked", arguments.record_masked),
        ("--record-limit", arguments.record_limit),
    ):
        if value and arguments.record is None:
            raise WrongUsage(f"{option} needs --record FILE")


async def listening(
    host: str, port: int, settings: BrokerSettings, clock: Clock | None, data: Path | None
) -> Server:
    """Returns a server at the address whose broker can be recorded; see `Server.listening`.

    Raises:
        OSError: the address is not available.
        CannotOpen: the folder cannot be used.
    """
    async with AsyncExitStack() as undo:
        listener = await Listener.open(host, port)
        undo.push_async_callback(listener.aclose)
        store = None
        if data is not None:
            store = await to_thread.run_sync(Store.open, data)
            undo.callback(store.release)
            clock = clock or await to_thread.run_sync(store.system_clock)
        broker = RecordedBroker(settings, clock or SystemClock(), store=store)
        server = Server(broker, listener, store)
        undo.pop_all()
    return server


def recording(server: Server, arguments: Namespace) -> AbstractContextManager[None]:
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
