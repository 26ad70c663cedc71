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

from rich.console import Console

from zaichik.base.extras import getting
from zaichik.cli import acked_by, connecting, default_ports, front_end
from zaichik.cli.arguments import Namespace, argument
from zaichik.cli.failure import Failure, listening, restated

MISSING = (
    "zaichik grpc needs grpcio, grpcio-health-checking and grpcio-reflection; get them with "
    f"{getting('grpc')}"
)

ARGUMENTS = (
    front_end.HOST,
    front_end.port(default_ports.GRPC),
    front_end.ACKED_BY,
    argument("--proto", "print the declaration of the service, and do nothing else"),
    *front_end.OPTIONS,
)


async def run(arguments: Namespace, console: Console) -> int:
    """Serve until a signal comes, or the broker is gone. Returns the exit code."""
    if arguments.proto:
        declaration = files("zaichik.apps.grpc") / "broker.proto"
        console.file.write(declaration.read_text(encoding="utf-8"))
        return 0
    return await front_end.run("gRPC", _serve, arguments, console)


async def _serve(arguments: Namespace, console: Console) -> None:
    # Otherwise its own log, of whatever strangers send, goes to standard error.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        from zaichik.apps.grpc.gateway import CannotServe, Options, serving
    except ModuleNotFoundError as error:
        raise Failure(MISSING) from error
    certificate = _certificate(arguments)
    async with connecting.connected(arguments, "grpc") as client:
        options = Options(
            endpoint=arguments.connect,
            host=arguments.host,
            port=arguments.port,
            certificate=certificate,
            reconnect=arguments.reconnect,
            acked_by=acked_by.chosen(arguments),
        )
        with (
            restated(CannotServe),
            listening(arguments.port, "zaichik grpc --port PORT", "another gateway", options.host),
        ):
            async with serving(client, options) as here:
                with front_end.metrics("grpc", options.figures, arguments) as metrics_port:
                    async with front_end.until_stopped(arguments):
                        front_end.announce(
                            "gRPC", *here, arguments, console, metrics_port=metrics_port
                        )


def _certificate(arguments: Namespace) -> tuple[bytes, bytes] | None:
    """Returns key and certificate; None without TLS."""
    # gRPC would only fail the handshakes, and not say why.
    if front_end.tls(arguments) is None:
        return None
    return arguments.tls_key.read_bytes(), arguments.tls_cert.read_bytes()
