"""A topic's folder in a recording: `topic=NAME`, in letters that every file system accepts.

All but ASCII letters, digits and `_.-~` are percent-encoded, as Spark, DuckDB, Polars and pandas
expect. That makes a Cyrillic name six times as long in characters, and a folder's name has 255 at
most. A name that does not fit is cut:

    topic=%24cut%2F%D0%B7%D0%B0-3f2a9c0d1e2f3a4b        # $cut/BEGINNING-HASH

Clients cannot create topics whose names begin with `$`, so a cut name is never another topic's. The
metadata of every file has the whole name, under `zaichik.topic`.
"""

from hashlib import blake2b
from pathlib import PurePath
from urllib.parse import quote, unquote

import pyarrow.parquet as pq

PREFIX = "topic="
JOURNAL_PREFIX = "$journal/"  # and the topic's name: the name of its journal
TOPIC_KEY = b"zaichik.topic"  # in a file's metadata
_LONGEST = 255 - len(PREFIX)  # of a file's name in bytes, on all usual file systems
_CUT = "$cut/"


def folder_of(topic: str) -> str:
    """Returns the name of a topic's folder."""
    return PREFIX + quote(shown_name(topic), safe="")


def shown_name(topic: str) -> str:
    """Returns the name that tools read from the folder's name: the topic's own, or a cut one."""
    if len(quote(topic, safe="")) <= _LONGEST:
        return topic
    digest = f"-{blake2b(topic.encode(), digest_size=8).hexdigest()}"
    end, room = 0, _LONGEST - len(quote(_CUT + digest, safe=""))
    while (room := room - len(quote(topic[end], safe=""))) >= 0:
        end += 1
    return f"{_CUT}{topic[:end]}{digest}"


def topic_of(file: PurePath, metadata: pq.FileMetaData | None = None) -> str:
    """Returns the topic of a recorded file, FOLDER/topic=…/day=…/….parquet.

    Args:
        file: its path.
        metadata: the file's; None: it is read if the name is cut.

    Raises:
        pyarrow.ArrowException, OSError: the name is cut, and the file, which has all of it, cannot
            be read.
    """
    name = unquote(file.parent.parent.name.removeprefix(PREFIX))
    if not name.startswith(_CUT):
        return name
    metadata = metadata or pq.read_metadata(file)
    whole: bytes = (metadata.metadata or {}).get(TOPIC_KEY, name.encode())
    return whole.decode()
