"""A broker that speaks TLS and asks for a login, in another thread, for tests without an event
loop.
"""

from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from anyio.from_thread import start_blocking_portal

import zaichik
from zaichik.cli.access_folder import new_password, new_token
from zaichik.cli.self_signed import self_signed
from zaichik.client import blocking
from zaichik.client.endpoint import endpoint
from zaichik.net.background import BackgroundTasks
from zaichik.net.tls_settings import server_tls
from zaichik.server.access.access_gate import Access, AccessGate
from zaichik.server.access.rules import Rules
from zaichik.server.access.users import Record, Users
from zaichik.server.server import Server

RULES = b"user ana\nallow all *\n"


class Gated:
    """Where it is, and how the one user gets in.

    Attributes:
        port: where it listens.
        address: all that may be shown.
        token, password: ana's; nobody may find them anywhere.
        certificate: the file with the broker's.
    """

    password = "Canary in a coal mine"

    def __init__(self, folder: Path, *, is_encrypted: bool = True) -> None:
        self.certificate, self.is_encrypted = folder / "cert.pem", is_encrypted
        proof, self.token = new_token()
        users = Users(users=(Record("ana", (proof,), new_password(self.password)),))
        self._access = Access(
            users, Rules.parse(RULES), self._tls(folder / "key.pem") if is_encrypted else None
        )

    def _tls(self, key: Path):
        for file, data in zip(
            (self.certificate, key), self_signed(["127.0.0.1"], datetime.now(UTC)), strict=True
        ):
            file.write_bytes(data)
        return server_tls(self.certificate, key)

    @asynccontextmanager
    async def running(self):
        """Serve for as long as the block lasts."""
        gate = AccessGate(self._access, zaichik.SystemClock())
        server = await Server.listening("127.0.0.1", 0, gate=gate)
        self.port = server.port
        async with BackgroundTasks() as tasks:
            tasks.group.start_soon(server.run)
            yield self

    @property
    def address(self) -> str:
        host_port = f"127.0.0.1:{self.port}"
        return (
            f"zaichiks://{host_port}?pin={self._access.tls.pin}"
            if self.is_encrypted
            else f"zaichik://{host_port}"
        )

    def line(self, login: str = "") -> str:
        """Returns the address with a login, by default ana's token."""
        return self.address.replace("//", f"//{login or self.token}@")

    def fill(self, topic: str, *payloads: bytes, **settings) -> None:
        """Have a topic with these messages."""
        with blocking.connect(endpoint(self.line())) as client:
            client.create_topic(topic, **{"retention_ttl": "forever"} | settings)
            client.publish_batch(topic, [(b"key", payload) for payload in payloads])


@contextmanager
def gated_broker(folder: Path, *, is_encrypted: bool = True) -> Iterator[Gated]:
    """One that lives as long as the block."""
    with start_blocking_portal() as portal:
        gated = Gated(folder, is_encrypted=is_encrypted)
        with portal.wrap_async_context_manager(gated.running()):
            yield gated
