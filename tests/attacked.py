"""A broker that asks who somebody is, over TLS, with two users; and what its attackers dial it
with.
"""

import datetime as dt
import socket
import ssl
from contextlib import asynccontextmanager

import anyio
from raw_client import RawClient

import zaichik
from zaichik.base.clock import SystemClock
from zaichik.cli.access_folder import dump, new_token
from zaichik.cli.self_signed import self_signed
from zaichik.cli.serve_access import CERTIFICATE, KEY, tls_in
from zaichik.client.endpoint import Credentials, Endpoint
from zaichik.net.background import BackgroundTasks
from zaichik.net.socket_stream import SocketStream
from zaichik.net.tls_engine import pin_of
from zaichik.net.tls_settings import client_tls
from zaichik.server.access.access_gate import Access, AccessGate
from zaichik.server.access.users import Record, Users
from zaichik.server.server import Server

GUARD = 60  # seconds after which a test that waits in vain fails; nothing ever waits for it to pass
ELSEWHERE = "127.0.0.2"  # where attackers come from: the failures of an address are its own
TOKEN = 1  # what a Hello's `auth` says that its secret is
RULES = """\
user ana
allow all *
allow all $broker
user boris
allow publish,subscribe,describe public*
"""


class Attacked:
    """See above.

    Attributes:
        folder: with its files.
        tokens: of the users, by name.
        pin: of its certificate; "" without TLS.
        server, gate: what runs, if it runs in this process.
        port: where.
    """

    def __init__(self, folder, tokens, pin):
        self.folder = folder
        self.tokens = tokens
        self.pin = pin
        self.server = self.gate = None
        self.port = 0

    def endpoint(self, user, **changes):
        """The address with that user's login; None: with nobody's."""
        credentials = user and Credentials(secret=self.tokens[user])
        known = {"host": "127.0.0.1", "port": self.port, "is_encrypted": bool(self.pin)}
        known["pins"] = (self.pin,) if self.pin else ()
        return Endpoint(**{**known, "credentials": credentials, **changes})

    def client(self, user, **options):
        """Our own client, logged in."""
        return zaichik.connect(self.endpoint(user), reconnect=0, **options)

    @asynccontextmanager
    async def plain(self, source=ELSEWHERE):
        """A connection on which nothing was said, from that address."""
        raw = socket.socket()
        raw.setblocking(False)
        async with SocketStream(raw) as stream:
            raw.bind((source, 0))
            raw.connect_ex(("127.0.0.1", self.port))
            await stream.wait_writable()
            yield stream

    @asynccontextmanager
    async def encrypted(self, source=ELSEWHERE):
        """A client of raw frames that has said nothing; over TLS, if the broker speaks it."""
        async with self.plain(source) as stream:
            tls = client_tls(pins=[self.pin]) if self.pin else None
            yield RawClient(await tls.secure(stream, "127.0.0.1") if tls else stream)

    @asynccontextmanager
    async def raw(self, user, source="127.0.0.1", **fields):
        """A client of raw frames that has logged in."""
        async with self.encrypted(source) as client:
            await client.hello(auth=TOKEN, secret=self.tokens[user], **fields)
            yield client


def prepared(path, rules=RULES, expires=None, *, has_tls=True):
    """The files of users ana and boris, who each have a token; ana's expires at that second, if it
    is given.
    """
    path.mkdir(mode=0o700, exist_ok=True)
    (path / "rules").write_text(rules)
    tokens, records = {}, []
    for name in ("ana", "boris"):
        token, tokens[name] = new_token(expires if name == "ana" else None)
        records.append(Record(name, (token,)))
    _write(path, "users.json", dump(Users(users=tuple(records))))
    if has_tls:
        certificate, key = self_signed(["localhost", "127.0.0.1"], dt.datetime.now(dt.UTC))
        _write(path, CERTIFICATE, certificate)
        _write(path, KEY, key)
    pin = pin_of(ssl.PEM_cert_to_DER_cert((path / CERTIFICATE).read_text())) if has_tls else ""
    return Attacked(path, tokens, pin)


def _write(path, name, data):
    file = path / name
    file.touch(mode=0o600)
    file.write_bytes(data)


@asynccontextmanager
async def attacked_broker(
    path,
    rules=RULES,
    *,
    host="127.0.0.1",
    settings=None,
    clock=None,
    tls=tls_in,
    expires=None,
    **gate,
):
    """One that runs as long as the block lasts."""
    found = prepared(path, rules, expires, has_tls=tls is not None)
    clock = clock or SystemClock()
    found.gate = AccessGate(Access.load(path, tls), clock, path, tls, **gate)
    with anyio.fail_after(GUARD):
        found.server = await Server.listening(host, 0, settings, clock, gate=found.gate)
        found.port = found.server.port
        async with BackgroundTasks() as tasks:
            tasks.group.start_soon(found.server.run)
            yield found
