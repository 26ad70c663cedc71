"""The options of `zaichik serve` about access, and the folder of users, rules and certificate."""

import socket
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from ipaddress import ip_address
from pathlib import Path

from rich.console import Console

from zaichik.base.clock import Clock
from zaichik.base.private_files import Unusable, read
from zaichik.cli import address, screen
from zaichik.cli.access_folder import dump, locked, new_token, with_token, write
from zaichik.cli.arguments import Namespace, argument, group, one_of
from zaichik.cli.failure import Failure, restated
from zaichik.cli.self_signed import self_signed
from zaichik.client.endpoint import Credentials, Endpoint
from zaichik.net.tls_settings import ServerTls, UnusableCertificate, server_tls
from zaichik.server.access.access_gate import RULES, USERS, Access, AccessGate
from zaichik.server.access.users import Record, Users
from zaichik.server.server import Server

LoadTls = Callable[[Path], ServerTls]

CERTIFICATE, KEY = "cert.pem", "key.pem"
ADMIN, CLASS = "admin", "class"
# Addresses of nobody (RFC 5737, RFC 3849), to find out by which of its own this machine would reach
# others.
ELSEWHERE = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}

FIRST_RULES = f"""\
# Who may do what. The first line that matches decides; if none does, the answer is no. \
After a change, run
#   zaichik access check DIR
# and then send the broker a SIGHUP: kill -HUP PID
#
# allow or deny, then actions (publish, subscribe, create, delete, describe, or all), \
then a topic's name,
# or the beginning of names and a *. `user *` is everybody who has logged in.

user {ADMIN}
allow all *
allow describe,delete $broker     # sees everything, and may disconnect clients

user {CLASS}
allow publish,subscribe,create,describe *
"""

OPTIONS = group(
    "access control",
    one_of(
        argument("--access DIR", "require a login; DIR has the users and rules", Path),
        argument(
            "--init-access DIR",
            "the same, but make DIR first, with two users and a certificate",
            Path,
        ),
    ),
    argument("--tls-client-ca FILE", "let clients log in with a certificate of this CA", Path),
    argument("--insecure", "serve other machines without a login, or without TLS"),
)


def prepare(server: Server, arguments: Namespace) -> list[tuple[str, Endpoint]]:
    """Give a listening server the gate that the options ask for.

    Returns the login lines, if they were just made.

    Raises:
        Failure: files cannot be used or made, or other machines would be served without protection.
    """
    lines = init(arguments.init_access, server.host, server.port) if arguments.init_access else []
    gate = gate_of(arguments, server.clock, server.broker.settings.handshake_timeout)
    check_reach(server.host, gate, is_insecure=arguments.insecure)
    if gate is not None:
        server.gate = gate
    return lines


def pin(server: Server) -> str | None:
    """Returns the pin of the certificate that a server shows; None if it speaks no TLS."""
    if isinstance(server.gate, AccessGate) and server.gate.access.tls:
        return server.gate.access.tls.pin
    return None


def is_exposed(server: Server) -> bool:
    """Returns whether others can read what clients send: there is a network, and no TLS."""
    return not address.Address(server.host, server.port).is_loopback and not pin(server)


def reload(server: Server) -> bool:
    """Read the files of access again, if there are any.

    Returns whether there are; the log says how it went.
    """
    if not isinstance(server.gate, AccessGate):
        return False
    server.gate.reload()  # not in a thread: a user who is removed meanwhile would come back
    return True


def print_lines(console: Console, lines: list[tuple[str, Endpoint]]) -> None:
    """Show the login lines: the only time that anybody sees them."""
    for name, endpoint in lines:
        console.print(f"\nto log in as {name}, type `zaichik login` and paste:", markup=False)
        screen.say(console, endpoint.line)
    if lines:
        console.print()
        made = (
            "These lines are shown only now, and stored nowhere; `zaichik user token add NAME` "
            "makes another token."
        )
        screen.say(console, made)


def gate_of(
    arguments: Namespace, clock: Clock, handshake_timeout: float = 5.0
) -> AccessGate | None:
    """Returns the gate that the options ask for; None if no login is required.

    For the rest see `AccessGate`.

    Raises:
        Failure: the folder cannot be used.
    """
    folder: Path | None = arguments.init_access or arguments.access
    if folder is None:
        if arguments.tls_client_ca:
            raise Failure(
                "--tls-client-ca needs --access DIR or --init-access DIR: without them, nobody has "
                "to log in"
            )
        return None
    tls = tls_of(folder, arguments.tls_client_ca)
    if tls is None and arguments.tls_client_ca:
        raise Failure(f"--tls-client-ca needs TLS: there is no {CERTIFICATE} in {folder}")
    return AccessGate(load(folder, tls), clock, folder, tls, handshake_timeout=handshake_timeout)


def load(folder: Path, tls: LoadTls | None) -> Access:
    """Returns what the files of a folder say.

    Raises:
        Failure: the folder cannot be used.
    """
    try:
        with restated(Unusable, UnusableCertificate):
            return Access.load(folder, tls)
    except FileNotFoundError as error:
        problem = (
            f"there is no {error.filename}; correct the path, or make a new folder: zaichik "
            "serve --init-access"
        )
        raise Failure(f"{problem} DIR") from None


def tls_of(folder: Path, client_ca: Path | None = None) -> LoadTls | None:
    """Returns what loads the certificate of such a folder, with `tls_in`; None if it has none."""
    return partial(tls_in, client_ca=client_ca) if (folder / CERTIFICATE).exists() else None


def tls_in(folder: Path, client_ca: Path | None = None) -> ServerTls:
    """Returns the certificate of a folder, and the CA whose certificates clients may log in with.

    Raises:
        Unusable, UnusableCertificate, OSError: it cannot be used.
    """
    read(folder / CERTIFICATE, is_secret=False)
    read(folder / KEY, is_secret=True)
    return server_tls(folder / CERTIFICATE, folder / KEY, client_ca)


def check_reach(host: str, gate: AccessGate | None, *, is_insecure: bool) -> None:
    """Refuse to serve other machines without access control, or without TLS.

    Args:
        host: the address that the broker listens at.
        gate: the access control; None: there is none.
        is_insecure: whether the operator insists.

    Raises:
        Failure: it would serve them; the sentence says what to do.
    """
    address = ip_address(host.partition("%")[0])
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_loopback or is_insecure or (gate is not None and gate.access.tls is not None):
        return
    lack = "has no certificate, so logins could be read on the way"
    if gate is None:
        lack = "requires no login"
    raise Failure(
        f"other machines can reach {host}, and this broker {lack}: type `zaichik serve --host "
        f"{host} --init-access "
        f"./access` (makes all that is needed), or add --access DIR (a folder with {CERTIFICATE} "
        f"and {KEY}), or leave "
        "out --host (this machine only), or add --insecure (everybody is served)"
    )


def init(folder: Path, host: str, port: int) -> list[tuple[str, Endpoint]]:
    """Make a folder for access control: a certificate, two users, and rules to begin with.

    Args:
        folder: is made; it may exist, if it is empty.
        host: the address that the broker listens at.
        port: its port.

    Returns:
        The name of each user, and the login line, which is stored nowhere.

    Raises:
        Failure: the folder is not empty, or no certificate can be made.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    here = outward(host)
    names = {here: None, "127.0.0.1": None, socket.gethostname(): None}  # in this order, each once
    hosts = [name for name in names if name and name.isascii()]
    with locked(folder) as descriptor:
        if any(folder.iterdir()):
            raise Failure(f"{folder} is not empty; to use what is there: --access {folder}")
        folder.chmod(0o700)
        with restated(ModuleNotFoundError):
            certificate, key = self_signed(hosts, datetime.now(UTC))
        tokens = {name: new_token() for name in (ADMIN, CLASS)}
        records = [with_token(Record(name), token) for name, (token, _) in tokens.items()]
        users = Users(users=tuple(records))
        write(descriptor, KEY, key)
        write(descriptor, CERTIFICATE, certificate)
        write(descriptor, RULES, FIRST_RULES.encode())
        # The users come last: without them, nobody can take half a folder for a whole one.
        write(descriptor, USERS, dump(users))
    pin = tls_in(folder).pin
    logins: list[tuple[str, Endpoint]] = []
    for name, (_, text) in tokens.items():
        credentials = Credentials("", text)
        logins.append((name, Endpoint(here, port, True, (pin,), credentials)))
    return logins


def outward(host: str) -> str:
    """Returns an address at which other machines reach what listens there."""
    if host not in {"0.0.0.0", "::", ""}:  # noqa: S104
        return host
    family = socket.AF_INET6 if host == "::" else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            # A datagram socket sends nothing for that, it only chooses the way.
            probe.connect((ELSEWHERE[family], 9))
        except OSError:
            return "::1" if host == "::" else "127.0.0.1"
        return str(probe.getsockname()[0])
