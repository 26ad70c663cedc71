"""Where statistics get their events from: a recording, or a topic at a broker.

A topic's journal is read if it has one.

Sources are checked before anything is read, so a missing one is reported at once.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zaichik import Endpoint, ZaichikError, blocking
from zaichik.apps.recording.columns import COLUMNS
from zaichik.apps.recording.folders import JOURNAL_PREFIX, PREFIX, topic_of
from zaichik.apps.recording.parts import SCHEMA as MESSAGES
from zaichik.apps.recording.parts import SETTINGS_KEY, rows_at_once
from zaichik.apps.recording.pieces import Piece, pieces
from zaichik.apps.recording.places import Place
from zaichik.apps.recording.stores import Store, name_of
from zaichik.apps.statistics.events import events, of_journal, of_messages
from zaichik.base.json_text import NotJson, parsed_object
from zaichik.client.inbox import check_end
from zaichik_protocol import Messages

Settings = Mapping[str, int]


class NothingToRead(ZaichikError):
    """There is no recording, or it is damaged; or there is no topic of that name."""


class CountedTwice(ZaichikError):
    """A topic is named twice, so that each of its messages would count twice."""


@dataclass(frozen=True, slots=True)
class RecordedTopic:
    """A topic of a recording.

    Attributes:
        name: the topic's, also if its journal is read.
        store: where the recording is.
        is_journaled: whether the journal is read.
        pieces: what is read of its files, in the order of their messages.
        rows: messages in the files.
        settings: of each epoch that was recorded, the topic's by name; None if the recording does
            not say.
        ends: of each epoch, the position after its last one.
        left_out: messages of epochs that were recorded without their journal, while others have
            one.
    """

    name: str
    store: Store
    is_journaled: bool
    pieces: Sequence[Piece]
    rows: int
    settings: Mapping[int, Settings | None]
    ends: Mapping[int, int]
    left_out: int = 0

    counters = None  # of the topic at its broker: a recording has none

    @property
    def place(self) -> str:
        """The recording's place, for people."""
        return self.store.place

    @property
    def files(self) -> list[Path]:
        """The files, if the recording is in a folder."""
        return [Path(piece.path) for piece in self.pieces]

    def gone(self, rows: int) -> tuple[int, int]:
        """Returns how many messages were gone before the first and between, if it is a table.

        Offsets that are missing within a file are holes.

        Args:
            rows: how many messages were read.
        """
        first: dict[int, int] = {}
        for piece in self.pieces:
            first.setdefault(piece.epoch, piece.start)
        before = sum(first.values())
        there = sum(piece.end - piece.start for piece in self.pieces)
        return before, sum(self.ends.values()) - before - there

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The events, in the order of positions.

        Raises:
            NothingToRead: a file is damaged.
            NoJournal: the topic is named like a journal, and is not one.
        """
        convert = of_journal if self.is_journaled else of_messages
        for piece in self.pieces:
            with _opened(self.store, piece.path) as source:
                for batch in source.iter_batches(
                    rows_at_once(source.metadata), columns=MESSAGES.names
                ):
                    # What another file has as well is read from that one.
                    is_new = pc.greater_equal(batch.column("offset"), piece.start)
                    yield events(convert(batch.filter(is_new)), piece.epoch)


@dataclass(frozen=True, slots=True)
class HeldTopic:
    """A topic that a broker holds.

    Attributes:
        name, is_journaled, settings, ends, left_out: as in `RecordedTopic`.
        broker: the broker that has it, for people.
        counters: what `describe` says of the topic.
        read: what `describe` says of what is read, the topic itself or its journal.
    """

    name: str
    is_journaled: bool
    broker: Endpoint
    counters: Mapping[str, Any]
    read: Mapping[str, Any]

    left_out = 0

    @property
    def place(self) -> str:
        """The broker, for people."""
        return str(self.broker)

    @property
    def settings(self) -> Mapping[int, Settings | None]:
        """See above."""
        return {self.read["epoch"]: self.counters["settings"]}

    @property
    def ends(self) -> Mapping[int, int]:
        """See above."""
        return {self.read["epoch"]: self.read["next_offset"]}

    @property
    def rows(self) -> int:
        """About how many events there are."""
        return int(self.read["resident"])

    def gone(self, rows: int) -> tuple[int, int]:
        """See `RecordedTopic`.

        What was there when the topic was described, and has not been read, was superseded or has
        expired since.
        """
        return int(self.read["head"]), max(0, int(self.read["resident"]) - rows)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the events that were there when the topic was described, but for those now gone.

        Raises:
            ConnectionLost: the broker has gone.
            EpochChanged: the topic is another one by now.
            TopicShrunk: the topic ends earlier than it did.
        """
        convert = of_journal if self.is_journaled else of_messages
        name, epoch, end = self.read["name"], self.read["epoch"], self.read["next_offset"]
        with (
            _connected(self.broker) as client,
            client.subscribe(name, start="earliest", until=end, epoch=epoch) as subscription,
        ):
            check_end(name, subscription.live, end)
            while not subscription.ended:
                frames = [item for item in subscription.fetch() if isinstance(item, Messages)]
                if frames:
                    columns = [COLUMNS[column](frames) for column in MESSAGES.names]
                    yield events(
                        convert(pa.RecordBatch.from_arrays(columns, schema=MESSAGES)), epoch
                    )


Topic = RecordedTopic | HeldTopic


def recorded(where: Place) -> list[RecordedTopic]:
    """The topics of a recording, in the order of their names.

    Raises:
        NothingToRead: there are no files, or one is damaged.
        StoreUnavailable: the place is in an object store, which cannot be used.
    """
    store = Store.at(where)
    files: dict[str, list[str]] = {}
    metadata: dict[str, pq.FileMetaData] = {}
    for path in _paths(store):
        # Its last bytes only: that is quick, and finds most damage.
        with _opened(store, path) as source:
            metadata[path] = source.metadata
            files.setdefault(topic_of(name_of(path), source.metadata), []).append(path)
    if not files:
        raise NothingToRead(
            f"{store.place} is not a recording: there are no files topic=…/day=…/….parquet in it"
        )
    found = []
    for read, paths in sorted(files.items()):
        # A topic that was recorded together with its journal is read from the journal alone.
        if JOURNAL_PREFIX + read in files:
            continue
        name = read.removeprefix(JOURNAL_PREFIX)
        of_topic = pieces(paths)
        # The last file of each.
        epochs = {piece.epoch: piece for piece in of_topic}
        beside: list[Piece] = []
        if read != name:
            beside = [piece for piece in pieces(files.get(name, [])) if piece.epoch not in epochs]
        topic = RecordedTopic(
            name,
            store,
            read != name,
            of_topic,
            rows=sum(metadata[piece.path].num_rows for piece in of_topic),
            settings={epoch: _settings(metadata[last.path]) for epoch, last in epochs.items()},
            ends={epoch: last.end for epoch, last in epochs.items()},
            left_out=sum(metadata[piece.path].num_rows for piece in beside),
        )
        found.append(topic)
    return found


def _paths(store: Store) -> list[str]:
    """The files of a recording, in an order that does not depend on the store."""
    pattern = f"{PREFIX}*/day=*/*.parquet"
    return sorted(one.path for one in store.listing() if name_of(one.path).match(pattern))


def _settings(metadata: pq.FileMetaData) -> Settings | None:
    text = (metadata.metadata or {}).get(SETTINGS_KEY)
    if text is None:
        return None
    try:
        settings = parsed_object(text)
    except NotJson:
        return None
    if not all(isinstance(value, int) for value in settings.values()):
        return None
    return settings


def held(broker: Endpoint, topics: Iterable[str]) -> list[HeldTopic]:
    """Topics that a broker has. A topic may also go by the name of its journal.

    Raises:
        ConnectFailed: there is no broker.
        NothingToRead: it has no such topic.
    """
    found = []
    with _connected(broker) as client:
        for asked in topics:
            name = asked.removeprefix(JOURNAL_PREFIX)
            # The journal first: what comes in between is in the topic's counters, and is not taken
            # for lost.
            journal, topic = client.topic(JOURNAL_PREFIX + name), client.topic(name)
            if topic is None:
                raise NothingToRead(
                    f"there is no topic {asked!r} at {broker}, and no folder of that name"
                )
            found.append(HeldTopic(name, journal is not None, broker, topic, journal or topic))
    return found


def _connected(broker: Endpoint) -> AbstractContextManager[blocking.Client]:
    """A client that does not reconnect: what is counted is what the broker held a moment ago."""
    return blocking.connect(broker, name="zaichik stats", reconnect=0)


def check_distinct(topics: Sequence[Topic]) -> None:
    """Refuse to count messages twice.

    Raises:
        CountedTwice: a topic is named twice.
    """
    counts = Counter(topic.name for topic in topics)
    twice = next((name for name, count in counts.items() if count > 1), None)
    if twice is not None:
        places = [str(topic.place) for topic in topics if topic.name == twice]
        where = f"at {places[0]}, and named twice"
        if len(set(places)) > 1:
            where = f"in {' and in '.join(places)}"
        raise CountedTwice(f"{twice} is {where}: its messages would count twice, so name it once")


def check_all(topic: Topic) -> None:
    """Read all of a recorded topic to find out why Spark could not: Spark does not name the file.

    Raises:
        NothingToRead: a file is damaged.
    """
    if isinstance(topic, RecordedTopic):
        for piece in topic.pieces:
            with _opened(topic.store, piece.path) as source:
                for _ in source.iter_batches():
                    pass


@contextmanager
def _opened(store: Store, path: str) -> Iterator[pq.ParquetFile]:
    """Returns a file to read. In the block, says what is wrong with one that cannot be read."""
    file = store.shown(path)
    try:
        with store.opened(path) as opened, pq.ParquetFile(opened) as source:
            yield source
    except FileNotFoundError as error:
        raise NothingToRead(
            f"{file} has gone meanwhile: a recorder merges small files. Try again"
        ) from error
    except (pa.ArrowException, OSError) as error:
        # What pyarrow finds wrong with a file has no number.
        if isinstance(error, OSError) and error.errno:
            raise NothingToRead(f"{file} cannot be read ({error.strerror})") from error
        raise NothingToRead(
            f"{file} is damaged ({str(error).rstrip('.')}): remove it. If it is its topic's last, "
            "zaichik record "
            "writes it again; if not, its messages will be reported as missing"
        ) from error
