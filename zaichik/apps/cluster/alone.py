"""The six calls on a file, for a cluster of one machine: nobody else writes there.

A record that is ephemeral is in memory only. Nothing changes behind the node's back, so nothing is
watched.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from zaichik.apps.cluster.engine import Listener, Record, Stale, State, StateChanged
from zaichik.apps.cluster.folder import FORMAT, UnusableFolder, write
from zaichik.base.json_text import NotJson, parsed_object


@dataclass
class FileEngine:
    """What a node agrees on with itself.

    Args:
        path: the file; it is written with the first record.
    """

    path: Path

    def __post_init__(self) -> None:
        self._records: dict[str, Record] = {}
        self._ephemeral: set[str] = set()

    @property
    def state(self) -> State:
        """It can always be asked."""
        return State.CONNECTED

    @asynccontextmanager
    async def running(self, listener: Listener) -> AsyncIterator[None]:
        """Reads the file, and says to the listener, once, that it can be asked.

        Not before: until a node has the folder, another one may write there.

        Raises:
            UnusableFolder: the file is damaged.
        """
        self._records = _loaded(self.path)
        listener(StateChanged(State.CONNECTED))
        yield

    async def create(self, path: str, data: bytes, *, ephemeral: bool = False) -> bool:
        """See `Engine.create`."""
        if path in self._records:
            return False
        self._records[path] = Record(data, 0)
        if ephemeral:
            self._ephemeral.add(path)
        else:
            self._save()
        return True

    async def get(self, path: str) -> Record | None:
        """See `Engine.get`."""
        return self._records.get(path)

    async def set(self, path: str, data: bytes, version: int) -> int:
        """See `Engine.set`."""
        record = self._records.get(path)
        if record is None or record.version != version:
            raise Stale(path)
        self._records[path] = Record(data, version + 1)
        self._save()
        return version + 1

    async def children(self, path: str) -> list[str]:
        """See `Engine.children`."""
        prefix = f"{path}/"
        below = {known.removeprefix(prefix) for known in self._records if known.startswith(prefix)}
        return sorted({name.partition("/")[0] for name in below})

    async def watch(self, path: str) -> None:
        """Do nothing: only this process writes here."""

    def _save(self) -> None:
        records = {
            path: {"data": record.data.decode(), "version": record.version}
            for path, record in sorted(self._records.items())
            if path not in self._ephemeral
        }
        write(self.path, {"format": FORMAT, "records": records})


def _loaded(path: Path) -> dict[str, Record]:
    try:
        fields = parsed_object(path.read_bytes())
        if fields["format"] != FORMAT:
            raise UnusableFolder(f"{path} is of a newer zaichik; upgrade this machine")
        return {
            name: Record(record["data"].encode(), int(record["version"]))
            for name, record in fields["records"].items()
        }
    except FileNotFoundError:
        return {}
    except (NotJson, KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnusableFolder(
            f"{path} is damaged ({error}); put a copy of it back, or remove it: then it is made "
            "again of known.json beside it, if that is there"
        ) from None
