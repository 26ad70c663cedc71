"""A broker over TLS where everybody is one user, by a certificate: for tests that know no users."""

import functools
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import trustme

from zaichik.net.background import BackgroundTasks
from zaichik.net.socket_stream import SocketStream
from zaichik.net.tls_settings import client_tls, server_tls
from zaichik.server.access.access_gate import Access, AccessGate
from zaichik.server.access.rules import Rules
from zaichik.server.access.users import Record, Users
from zaichik.server.server import Server

ECDSA = trustme.KeyType.ECDSA
USER, HOST = "ana", "localhost"
EVERYTHING = b"user *\nallow all *\nallow all $*\n"


@functools.cache
def ends(key_type):
    """What a broker needs for TLS, and what its clients do, who have the certificate of a user."""
    authority = trustme.CA(key_type=key_type)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        authority.cert_pem.write_to_path(folder / "ca")
        for role, names, of in (("broker", [HOST], None), ("client", ["x"], USER)):
            issued = authority.issue_cert(*names, common_name=of, key_type=key_type)
            issued.private_key_and_cert_chain_pem.write_to_path(folder / role)
        client = client_tls(ca=folder / "ca", certificate=folder / "client")
        return server_tls(folder / "broker", folder / "broker", folder / "ca"), client


def gate(clock, key_type=ECDSA):
    """The gate of such a broker."""
    tls, _ = ends(key_type)
    return AccessGate(Access(Users(users=(Record(USER),)), Rules.parse(EVERYTHING), tls), clock)


async def dial(port):
    """A stream to such a broker."""
    return await ends(ECDSA)[1].secure(await SocketStream.connect("127.0.0.1", port), HOST)


@asynccontextmanager
async def running_broker(clock):
    """One that runs as long as the block lasts."""
    server = await Server.listening("127.0.0.1", 0, clock=clock, gate=gate(clock))
    async with BackgroundTasks() as tasks:
        tasks.group.start_soon(server.run)
        yield server
