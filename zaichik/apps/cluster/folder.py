"""The folder of a node: whose it is, what was known last, and a folder for each shard.

node.lock     locked by the process that uses the folder
node.json     the machine's name, and the folder's identity, drawn once
known.json    what was known of the cluster last, for a start without ZooKeeper
cluster.json  what is agreed on in a cluster of this one machine
shard-N/      the durable topics of shard N: the --data of its broker
"""

import fcntl
import json
import os
import secrets
from pathlib import Path
from typing import Any, Self

from zaichik.apps.cluster.coordinator import Known
from zaichik.apps.cluster.records import Features, Incompatible, Placement, Unreadable
from zaichik.base.json_text import NotJson, parsed_object

LOCK = "node.lock"
NODE = "node.json"
KNOWN = "known.json"
CLUSTER = "cluster.json"
FORMAT = 1
IDENTITY_BYTES = 8


class UnusableFolder(Exception):
    """The folder cannot be used. The text names it, and says why and what to do."""


class Folder:
    """A node's folder, locked until `close`.

    Attributes:
        path: the folder.
        machine: the machine's name.
        identity: what no other folder has.
    """

    def __init__(self, path: Path, machine: str, identity: str, lock: int) -> None:
        self.path = path
        self.machine = machine
        self.identity = identity
        self._lock = lock

    @classmethod
    def opened(cls, path: Path, machine: str) -> Self:
        """Returns the folder, made if it is missing, and locked.

        Raises:
            UnusableFolder: another process has it, it is another machine's, or it is damaged.
            OSError: it cannot be made or written.
        """
        path.mkdir(parents=True, exist_ok=True)
        # Not inherited by brokers: they may outlive this process for a moment.
        lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return cls(path, machine, identity_of(path, machine), lock)
        except BlockingIOError:
            os.close(lock)
            raise UnusableFolder(
                f"another node uses {path}; stop it, or choose another folder with --data"
            ) from None
        except BaseException:
            os.close(lock)
            raise

    def close(self) -> None:
        """Let another process have the folder."""
        os.close(self._lock)

    def shard(self, shard: int) -> Path:
        """Returns the folder of a shard's durable topics, which may not exist yet."""
        return self.path / f"shard-{shard}"

    def known(self) -> Known | None:
        """Returns what was known last; None if nothing was.

        Raises:
            UnusableFolder: the file is damaged.
        """
        path = self.path / KNOWN
        try:
            fields = _read(path)
            if fields is None:
                return None
            placements = {
                int(shard): Placement.parse(_dumped(place))
                for shard, place in fields["placements"].items()
            }
            features = Features.parse(_dumped(fields["features"]))
            return Known(features, int(fields["epoch"]), placements)
        except (
            NotJson,
            Unreadable,
            Incompatible,
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
        ) as error:
            raise UnusableFolder(
                f"{path} is damaged ({error}); remove it: it is written again of what ZooKeeper "
                f"has, or {CLUSTER} in a cluster of one machine"
            ) from error

    def save(self, known: Known) -> None:
        """Keep what is known.

        Raises:
            OSError: it cannot be written.
        """
        placements = {
            str(shard): json.loads(place.encoded())
            for shard, place in sorted(known.placements.items())
        }
        fields = {
            "format": FORMAT,
            "features": json.loads(known.features.encoded()),
            "epoch": known.epoch,
            "placements": placements,
        }
        write(self.path / KNOWN, fields)


def identity_of(path: Path, machine: str) -> str:
    """Returns the identity of a machine's folder, drawn if it has none; both are made then.

    Raises:
        UnusableFolder: it is another machine's, or it is damaged.
        OSError: it cannot be made or written.
    """
    path.mkdir(parents=True, exist_ok=True)
    try:
        fields = _read(path / NODE)
        if fields is not None:
            owner, known_identity = str(fields["machine"]), str(fields["folder"])
    except (NotJson, KeyError) as error:
        raise UnusableFolder(
            f"{path / NODE} is damaged ({error!r}); put a copy of it back: it says whose shards "
            "these are"
        ) from None
    if fields is None:
        identity = secrets.token_hex(IDENTITY_BYTES)
        write(path / NODE, {"format": FORMAT, "machine": machine, "folder": identity})
        return identity
    if owner != machine:
        raise UnusableFolder(
            f"{path} belongs to the machine {owner}, and this one is {machine}: "
            f"write --machine {owner}, or choose another folder with --data"
        )
    return known_identity


def _read(path: Path) -> dict[str, Any] | None:
    """Returns what a file of ours holds; None if there is none.

    Raises:
        NotJson: it is damaged.
        UnusableFolder: it is of a later version.
    """
    try:
        fields = parsed_object(path.read_bytes())
    except FileNotFoundError:
        return None
    if fields.get("format") != FORMAT:
        raise UnusableFolder(f"{path} is of a newer zaichik; upgrade this machine")
    return fields


def write(path: Path, fields: dict[str, Any]) -> None:
    """Write a file so that after a crash it is the old one or the new one.

    Raises:
        OSError: it cannot be written.
    """
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        file.write(_dumped(fields) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _dumped(fields: Any) -> bytes:
    return json.dumps(fields, ensure_ascii=False, indent=1).encode()
