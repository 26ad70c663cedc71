r"""`zaichik grpc`: a gateway for clients that speak gRPC.

Let programs in any language that speaks gRPC use the broker. The service is declared in a file that
--proto prints, field by field: generate a client from it. Health checks and reflection are there,
too, so that grpcurl works.

If the broker requires a login, each call has one, in its metadata: authorization, with `Bearer
TOKEN` or `Basic BASE64(USER:PASSWORD)`. The gateway opens a connection to the broker for each user.
The login of this command is used for nothing but to learn the broker's limits, and whether it is
still there.

Only this machine can reach the gateway, unless it has a certificate and the broker requires a
login. If the connection to the broker is lost, the gateway tries to reconnect, and calls wait.
SIGTERM stops it with exit code 0, Ctrl-C with 130.

Examples:
  zaichik grpc                              # at 127.0.0.1:50051
  zaichik grpc --proto > broker.proto       # what to generate a client from
  grpcurl -plaintext -d '{"topic": "orders"}' 127.0.0.1:50051 \
      zaichik.v1.Broker/Describe
  zaichik grpc --connect zaichiks://broker.example:8889
  zaichik grpc --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
  zaichik grpc --port 0 --json              # a free port; {"host": ..., ...}
"""

import os
from importlib.resources import files
from pathlib import Path

import anyio
from rich.console import Console
from rich.text import Text

from zaichik.base.extras import getting
from zaichik.cli import address, connecting, screen, serve_log
from zaichik.cli.arguments import Namespace, WrongUsage, argument
from zaichik.cli.failure import Failure, listening, restated
from zaichik.cli.signals import stopping
from zaichik.net.tls_settings import UnusableCertificate, server_tls

DEFAULT_PORT = 50051  # the one that gRPC's examples have
MISSING = (
    "zaichik grpc needs grpcio, grpcio-health-checking and grpcio-reflection; get them with "
    f"{getting('grpc')}"
)

ARGUMENTS = (
    connecting.ADDRESS,
    argument("--host HOST", "address to listen on", default="127.0.0.1"),
    argument(
        "--port PORT", "port to listen on; 0 takes a free one", address.port, default=DEFAULT_PORT
    ),
    argument("--tls-cert FILE", "serve over TLS: the certificate, PEM", Path),
    argument("--tls-key FILE", "the certificate's private key, PEM", Path),
    argument("--proto", "print the declaration of the service, and do nothing else"),
    argument("--json", "when ready, print one JSON object: host, port, pid, broker"),
    serve_log.LEVEL,
    connecting.RECONNECT,
)


async def run(arguments: Namespace, console: Console) -> None:
    """Serve until a signal comes, or the broker is gone."""
    if arguments.proto:
        declaration = files("zaichik.apps.grpc") / "broker.proto"
        console.file.write(declaration.read_text(encoding="utf-8"))
        return
    # Otherwise its own log, of whatever strangers send, goes to standard error.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        from zaichik.apps.grpc.gateway import CannotServe, Options, serving
    except ModuleNotFoundError as error:
        raise Failure(MISSING) from error
    certificate = _certificate(arguments)
    stop = anyio.Event()
    async with connecting.connected(arguments, "grpc") as client:
        options = Options(
            endpoint=arguments.connect,
            host=arguments.host,
            port=arguments.port,
            certificate=certificate,
            reconnect=arguments.reconnect,
        )
        # Signals are caught before the announcement: a program that waits for it may send one right
        # away.
        with (
            serve_log.written(arguments),
            restated(CannotServe),
            listening(arguments.port, "zaichik grpc --port PORT", "another gateway", options.host),
        ):
            async with serving(client, options) as here, stopping(lambda _: stop.set()):
                _announce(address.Address(*here), arguments, console)
                await stop.wait()


def _certificate(arguments: Namespace) -> tuple[bytes, bytes] | None:
    """Returns key and certificate; None without TLS.

    Raises:
        WrongUsage: there is one of them only.
        Failure: they cannot be used.
    """
    if (arguments.tls_cert is None) != (arguments.tls_key is None):
        raise WrongUsage("--tls-cert and --tls-key belong together")
    if arguments.tls_cert is None:
        return None
    with restated(UnusableCertificate):
        # gRPC would only fail the handshakes, and not say why.
        server_tls(arguments.tls_cert, arguments.tls_key)
    return arguments.tls_key.read_bytes(), arguments.tls_cert.read_bytes()


def _announce(here: address.Address, arguments: Namespace, console: Console) -> None:
    broker = str(arguments.connect)
    if arguments.json:
        screen.print_json(
            {"host": here.host, "port": here.port, "pid": os.getpid(), "broker": broker}
        )
    else:
        text = Text.assemble(
            "serving gRPC at ", (str(here), "bold"), f", for the broker at {broker}"
        )
        console.print(text, soft_wrap=True)
