"""The six calls at ZooKeeper, by kazoo. No other file knows either.

kazoo calls back on threads of its own. They do nothing but hand something to the event loop, so
nothing here can block them, and they share nothing with it (CL-1). Of kazoo only plain calls and
one-shot watches are used: its recipes keep threads and retries of their own. A connection that is
lost takes all watches with it; whoever listens watches again when `CONNECTED` comes.

While ZooKeeper is away, kazoo tries its hosts after pauses that grow to five seconds.
"""

import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import anyio
from anyio.from_thread import BlockingPortal
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    BadArgumentsError,
    BadVersionError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.hosts import collect_hosts
from kazoo.protocol.paths import normpath
from kazoo.protocol.states import KeeperState
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from zaichik.apps.cluster.engine import (
    Away,
    Changed,
    Denied,
    Listener,
    Record,
    Stale,
    State,
    StateChanged,
)

# Its own log goes nowhere unless the program configures it: what matters is said by the node, once.
logging.getLogger("kazoo").addHandler(logging.NullHandler())

# Between attempts to connect, in seconds: at once after a blip, cheap if it is away for a night.
RETRY = {"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 5.0}
ANSWER_S = 10.0  # after which a call counts as unanswered, though the connection is there
STOP_S = 3.0  # for giving up the session in order; else it expires
CHROOT_S = 10.0


def check_hosts(hosts: str) -> None:
    """Check a list of hosts such as `zk-1,zk-2:2181/zaichik`.

    Raises:
        ValueError: it is none.
    """
    found, chroot = collect_hosts(hosts)
    if not all(0 < port < 65_536 for _, port in found):
        raise ValueError("a port is not from 1 to 65535")
    if chroot is not None and (chroot != "/" and (chroot.endswith("/") or "//" in chroot)):
        raise ValueError("the path after the hosts ends in a slash")
    if chroot is not None:
        normpath(chroot)


class ZooKeeper:
    """A session at ZooKeeper, made anew whenever it has expired.

    Args:
        hosts: `HOST:PORT,…/PATH`; everything is below that path.
        session_s: the silence after which ZooKeeper takes this node for gone.
        creates_path: whether to create that path if it is missing.
        login: `USER:PASSWORD`; then nobody else may read or change what this node creates.
    """

    def __init__(
        self, hosts: str, session_s: float, *, creates_path: bool = False, login: str | None = None
    ) -> None:
        self._hosts = hosts
        self._session_s = session_s
        self._creates_path = creates_path
        self._auth = [] if login is None else [("digest", login)]
        self._acl = OPEN_ACL_UNSAFE if login is None else CREATOR_ALL_ACL
        self._client = self._made(hosts)
        self._portal: BlockingPortal | None = None
        self._listener: Listener | None = None

    def _made(self, hosts: str) -> Any:
        return KazooClient(
            hosts, timeout=self._session_s, connection_retry=RETRY, auth_data=self._auth
        )

    @asynccontextmanager
    async def running(self, listener: Listener) -> AsyncIterator[None]:
        """Has events sent to the listener during the block, in this event loop."""
        portal = BlockingPortal()
        await portal.__aenter__()
        try:
            self._portal, self._listener = portal, listener
            self._client.add_listener(self._on_state)
            self._client.start_async()
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await self._stop()
            # Without the block's exception, which its group of tasks would wrap.
            await portal.__aexit__(None, None, None)

    async def _stop(self) -> None:
        """Give up the session, so that nobody waits for it to expire."""
        # A daemon: kazoo waits longer for a ZooKeeper that hangs than the end of a program should.
        stopping = threading.Thread(target=self._stop_client, name="zookeeper stop", daemon=True)
        stopping.start()
        await anyio.to_thread.run_sync(stopping.join, STOP_S)

    def _stop_client(self) -> None:
        with suppress(Exception):
            self._client.stop()
            self._client.close()

    # -- on kazoo's threads ----------------------------------------------------------------------

    def _on_state(self, state: str) -> None:
        # A login that was refused is noticed by asking, like all that is refused.
        is_connected = state == KazooState.CONNECTED or self._is_refused
        told = State.CONNECTED if is_connected else State.AWAY
        self._post(self._tell, StateChanged(told))

    def _on_change(self, path: str, event: Any) -> None:
        # Events without a path say that the connection was lost, which is told as a state.
        if event.path is not None:
            self._post(self._tell, Changed(path))

    def _post(self, function: Callable[..., object], *arguments: Any) -> None:
        """Have a function called in the event loop; nothing happens once it has ended."""
        if self._portal is not None:
            with suppress(RuntimeError):
                self._portal.start_task_soon(function, *arguments)

    # -- in the event loop -----------------------------------------------------------------------

    def _tell(self, event: StateChanged | Changed) -> None:
        if self._listener is not None:
            self._listener(event)

    @property
    def _is_refused(self) -> bool:
        return bool(self._client.client_state == KeeperState.AUTH_FAILED)

    @property
    def state(self) -> State:
        """Whether it can be asked now."""
        if self._client.connected or self._is_refused:
            return State.CONNECTED
        return State.AWAY

    async def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> bool:
        """See `Engine.create`."""
        while True:
            try:
                await self._ask(
                    path,
                    partial(
                        self._client.create_async, path, data, acl=self._acl, ephemeral=ephemeral
                    ),
                )
            except NodeExistsError:
                return False
            except NoNodeError:
                await self._create_above(path)
            else:
                return True

    async def _create_above(self, path: str) -> None:
        above = path.rpartition("/")[0]
        if above:
            await self.create(above, b"")
        else:
            await self._create_chroot()

    async def _create_chroot(self) -> None:
        hosts, _, path = self._hosts.partition("/")
        if not self._creates_path:
            raise Denied(
                f"ZooKeeper has no path /{path}: is it the right one? To make it, add --create-path"
            )

        def create() -> None:
            client = self._made(hosts)
            try:
                client.start(CHROOT_S)
                client.ensure_path(f"/{path}", acl=self._acl)
            finally:
                client.stop()
                client.close()

        try:
            await anyio.to_thread.run_sync(create, abandon_on_cancel=True)
        except NoAuthError as error:
            raise self._denied(f"/{path}") from error
        except BadArgumentsError as error:
            raise _no_path(f"/{path}") from error
        except (KazooException, KazooTimeoutError) as error:
            raise Away(f"/{path}: {error!r}") from error

    async def get(self, path: str) -> Record | None:
        """See `Engine.get`."""
        try:
            data, stat = await self._ask(path, partial(self._client.get_async, path))
        except NoNodeError:
            return None
        return Record(data, stat.version)

    async def set(self, path: str, data: bytes, version: int) -> int:
        """See `Engine.set`."""
        try:
            stat = await self._ask(path, partial(self._client.set_async, path, data, version))
        except (BadVersionError, NoNodeError) as error:
            raise Stale(path) from error
        return int(stat.version)

    async def children(self, path: str) -> list[str]:
        """See `Engine.children`."""
        try:
            return sorted(await self._ask(path, partial(self._client.get_children_async, path)))
        except NoNodeError:
            return []

    async def watch(self, path: str) -> None:
        """See `Engine.watch`."""
        on_change = _Watch(self, path)
        await self._ask(path, partial(self._client.exists_async, path, watch=on_change))

    async def _ask(self, path: str, call: Callable[[], Any]) -> Any:
        """Returns the answer to a call.

        Raises:
            Away, Denied: see `Engine`.
            NoNodeError, NodeExistsError, BadVersionError: kazoo's.
        """
        if self._is_refused:
            raise Denied("ZooKeeper refuses the login of --zookeeper-login: is it the right one?")
        if not self._client.connected:
            # kazoo would keep the call until there is a connection, which may be tomorrow.
            raise Away(path)
        answered = anyio.Event()
        result = call()
        result.rawlink(lambda _: self._post(answered.set))
        with anyio.move_on_after(ANSWER_S):
            await answered.wait()
        try:
            return result.get(block=False)
        except NoAuthError as error:
            raise self._denied(path) from error
        except BadArgumentsError as error:
            raise _no_path(path) from error
        except (NoNodeError, NodeExistsError, BadVersionError):
            raise
        except (KazooException, KazooTimeoutError) as error:
            raise Away(f"{path}: {error!r}") from error

    def _denied(self, path: str) -> Denied:
        whole = self._hosts.partition("/")[2]
        return Denied(
            f"ZooKeeper refuses what this node must do at {path}: it needs all rights below "
            f"/{whole}; log in with --zookeeper-login, or have them given"
        )


def _no_path(path: str) -> Denied:
    return Denied(
        f"ZooKeeper takes no path such as {path!r}: in its names are no emoji, and no characters "
        "that cannot be seen; choose another --machine, or another path after --zookeeper"
    )


class _Watch:
    """What kazoo calls when a path has changed.

    kazoo keeps watches in a set: two of one path are equal, so that watching twice is telling once.
    """

    def __init__(self, zookeeper: ZooKeeper, path: str) -> None:
        self._zookeeper = zookeeper
        self._path = path

    def __call__(self, event: Any) -> None:
        self._zookeeper._on_change(self._path, event)  # noqa: SLF001 (it is its part)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Watch) and other._path == self._path

    def __hash__(self) -> int:
        return hash(self._path)
