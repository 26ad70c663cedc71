"""The options of `format("zaichik")`, checked before Spark starts anything.

| option | meaning |
| --- | --- |
| broker | HOST:PORT or zaichiks://HOST:PORT?pin=... (default: see `broker`) |
| cluster | instead: any broker of a cluster; each topic is read and written at its shard |
| tokenFile | a file on each worker with the token; why options hold none: see `broker` |
| user, passwordFile | instead: a user's name, and a file on each worker with the password |
| ca | a file on each worker with the CA (default: the pin, or what the system trusts) |
| topic | a topic's name, or several with commas between them; `.load("orders")` says the same |
| start | earliest (default), latest, an offset, an ISO 8601 time; or JSON: {"orders": 100} |
| end | latest (default), an offset, or a time: read what is before it; or JSON; not for streams |
| epoch | fail unless the topic is this one; JSON for several topics |
| partitions | Spark tasks for each topic (default: one for each million messages) |
| onLag | fail (default) or skip: what to do about messages that are gone already |
| table | latest: a table's state, a row for each key; changes: with a column deleted |
| topicPattern | instead: a regular expression for whole names; a stream reads it when it starts |
| subscribePattern | instead: as orders.*; a stream reads also topics that come later: `following` |
| maxMessagesPerTrigger | for streams: messages in one micro-batch at most |
| minMessagesPerTrigger | for streams: wait for this many, ... |
| maxTriggerDelay | ... but no longer than this many seconds (default 900) |
| name | for streams: under which the broker keeps position and messages; see `holding` |
| pushDown | for tables: true, if filters are to narrow what is read; see `narrowing` |
| archive | also read what the topic's recording has, a folder or s3://…; see `archived` |
| exactlyOnce | for writing: true, if a retried task publishes the same rows; see `writer` |

Without `broker`, it is ZAICHIK_CONNECT, or a login that is kept, or 127.0.0.1:8889.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from zaichik.apps.recording.places import Place, place
from zaichik.apps.spark.broker import AnyClient, Broker
from zaichik.apps.spark.errors import BadOption
from zaichik.base.json_text import parsed_object
from zaichik.client.client import RECONNECT_SECONDS
from zaichik.client.messages import StartAt, start_written
from zaichik.client.patterns.pattern import Pattern

MESSAGES_A_TASK = 1_000_000
_KNOWN = (
    "broker",
    "cluster",
    "topic",
    "topicPattern",
    "subscribePattern",
    "start",
    "end",
    "epoch",
    "partitions",
    "onLag",
    "table",
    "maxMessagesPerTrigger",
    "minMessagesPerTrigger",
    "maxTriggerDelay",
    "name",
    "pushDown",
    "archive",
    "exactlyOnce",
    "tokenFile",
    "user",
    "passwordFile",
    "ca",
)
_OF_SPARK = {"path", "checkpointlocation"}  # it passes on what is its own


@dataclass(frozen=True, slots=True)
class Options:
    """The options, read.

    Attributes:
        broker: where it is, and how to log in there.
        topics: what to read, or the one to write to; none if the table to write has a column that
            says it.
        starts, ends: for each topic, as the client has them.
        start, end: for topics that come later.
        pattern: of the topics that a stream follows, which come and go; "": those are `topics`.
        epochs: of each topic, which one it must be; None: any.
        partitions: tasks for each topic; None: as many as `MESSAGES_A_TASK` makes.
        on_lag: "fail" or "skip".
        table: "latest" to read the state of tables, "changes" for their changes, deletions among
            them; "" for messages as they are.
        max_messages: in one micro-batch; None: all there are.
        min_messages: that a micro-batch waits for.
        max_delay: seconds that it waits at most.
        push_down: whether filters narrow what is read.
        exactly_once: whether batches that are published are numbered.
        name: of a stream's positions; "": it has none.
        archive: the place of a recording; None: the broker alone is read.
    """

    broker: Broker
    topics: tuple[str, ...]
    starts: Mapping[str, StartAt]
    ends: Mapping[str, StartAt]
    epochs: Mapping[str, int | None]
    partitions: int | None
    on_lag: Literal["fail", "skip"]
    max_messages: int | None
    min_messages: int = 1
    max_delay: int = 900
    push_down: bool = False
    exactly_once: bool = False
    name: str = ""
    pattern: str = ""
    start: StartAt = "earliest"
    end: StartAt = "latest"
    table: Literal["", "latest", "changes"] = ""
    archive: Place | None = None

    @classmethod
    def of(
        cls, given: Mapping[str, str], *, needs_topic: bool = True, follows: bool = False
    ) -> "Options":
        """Returns the parsed options; a pattern of topics is resolved at the broker.

        Args:
            given: as Spark hands them on.
            needs_topic: whether a topic must be named.
            follows: whether topics may come later, so that `subscribePattern` is not resolved.

        Raises:
            BadOption: one of them is not valid, or no topic matches the pattern.
        """
        words = {name.lower(): value for name, value in given.items()}
        broker = Broker.of(words)
        known = {name.lower() for name in _KNOWN} | _OF_SPARK
        if unknown := sorted(words.keys() - known):
            raise BadOption(f"there is no option {unknown[0]}; there are {', '.join(_KNOWN)}")
        pattern = ""
        if follows:
            pattern = words.get("subscribepattern", "")
        topics = _topics(broker, words, is_followed=bool(pattern))
        if not topics and needs_topic and not pattern:
            raise BadOption(
                'which topic? Name it with .option("topic", "orders"), or .load("orders")'
            )
        if len(set(topics)) < len(topics):
            raise BadOption(f"topic is {','.join(topics)!r}; name each topic once")
        on_lag = words.get("onlag", "fail")
        if on_lag not in {"fail", "skip"}:
            raise BadOption(f"onLag is {on_lag!r}; it must be fail or skip")
        table = words.get("table", "")
        if table not in {"", "latest", "changes"}:
            raise BadOption(
                f"table is {table!r}; it must be latest, for a table's state, or changes"
            )
        start = words.get("start", "earliest")
        end = words.get("end", "latest")
        return cls(
            broker=broker,
            topics=topics,
            starts=_positions("start", start, topics, "earliest"),
            ends=_positions("end", end, topics, "latest"),
            epochs=_epochs(words, topics),
            partitions=_number(words, "partitions"),
            on_lag=cast('Literal["fail", "skip"]', on_lag),
            max_messages=_number(words, "maxMessagesPerTrigger"),
            min_messages=_number(words, "minMessagesPerTrigger") or 1,
            max_delay=_number(words, "maxTriggerDelay") or 900,
            push_down=_yes(words, "pushDown"),
            exactly_once=_yes(words, "exactlyOnce"),
            name=words.get("name", ""),
            pattern=pattern,
            start=_of_all("start", start, "earliest"),
            end=_of_all("end", end, "latest"),
            archive=_archive(words, table),
            table=cast('Literal["", "latest", "changes"]', table),
        )

    def connect(self, reconnect: float = RECONNECT_SECONDS) -> AbstractContextManager[AnyClient]:
        """Returns a client of the broker; see `Broker.connect`."""
        return self.broker.connect(reconnect)


def _topics(broker: Broker, words: Mapping[str, str], *, is_followed: bool) -> tuple[str, ...]:
    """Returns the topics that are named, in one of four ways; none if no topic is.

    Args:
        broker: which is asked for those that match.
        words: the options.
        is_followed: whether those that match may come later, so that nobody is asked now.
    """
    topic = words.get("topic")
    path = words.get("path")
    if path and topic:
        raise BadOption(f"the topic is named twice: {topic!r} and .load({path!r}); name it once")
    topics = topics_in(topic or path or "")
    patterns = [name for name in ("topicPattern", "subscribePattern") if name.lower() in words]
    if not patterns:
        return topics
    if topics:
        raise BadOption(f"topics are named, and {patterns[0]} is given, too; one of them is enough")
    if len(patterns) > 1:
        raise BadOption("topicPattern and subscribePattern are given; one of them is enough")
    if "topicpattern" in words:
        pattern = words["topicpattern"]
        return _matching(broker, pattern, _regular_expression(pattern))
    pattern = words["subscribepattern"]
    try:
        matches = Pattern(pattern).matches
    except ValueError as error:
        raise BadOption(f"subscribePattern is {pattern!r}: {error}") from None
    if is_followed:
        return ()
    return _matching(broker, pattern, matches)


def _regular_expression(pattern: str) -> Callable[[str], object]:
    try:
        return re.compile(pattern).fullmatch
    except re.error as error:
        raise BadOption(
            f"topicPattern is {pattern!r}, which is not a regular expression: {error}"
        ) from None


def _matching(broker: Broker, pattern: str, matches: Callable[[str], object]) -> tuple[str, ...]:
    """The broker's topics whose whole names match, without those that are its own."""
    with broker.connect() as client:
        names = [topic["name"] for topic in client.topics()]
    found = tuple(name for name in names if matches(name) and not name.startswith("$"))
    if not found:
        raise BadOption(
            f"no topic matches {pattern!r}; there are {len(names)}, see: zaichik topics"
        )
    return found


def topics_in(text: str) -> tuple[str, ...]:
    """The names between commas."""
    return tuple(filter(None, (name.strip() for name in text.split(","))))


def _number(words: Mapping[str, str], name: str) -> int | None:
    text = words.get(name.lower())
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise BadOption(f"{name} is {text!r}; it must be a whole number, at least 1")
    return int(text)


def _epochs(words: Mapping[str, str], topics: tuple[str, ...]) -> Mapping[str, int | None]:
    if not words.get("epoch", "").lstrip().startswith("{"):
        epoch = _number(words, "epoch")
        if epoch is not None and len(topics) > 1:
            raise BadOption(
                'an epoch belongs to one topic, and here are several: write {"orders": 1, ...}'
            )
        return dict.fromkeys(topics, epoch)
    given = _of_topics("epoch", words["epoch"], topics)
    return {
        topic: _number({"epoch": str(given[topic])}, "epoch") if topic in given else None
        for topic in topics
    }


def _archive(words: Mapping[str, str], table: str) -> Place | None:
    """Returns the place of the recording; None if there is none."""
    text = words.get("archive", "")
    if not text:
        return None
    if table:
        raise BadOption(
            "archive and table are given, but only the broker knows the state of a table and "
            "which deletions were missed: leave one of them out"
        )
    try:
        where = place(text)
    except ValueError as error:
        raise BadOption(f"archive: {error}") from None
    # Workers have a folder of their own in which they run.
    return where.absolute() if isinstance(where, Path) else where


def _yes(words: Mapping[str, str], name: str) -> bool:
    text = words.get(name.lower(), "false").lower()
    if text not in {"true", "false"}:
        raise BadOption(f"{name} is {text!r}; it must be true or false")
    return text == "true"


def _positions(
    name: str, text: str, topics: tuple[str, ...], default: StartAt
) -> Mapping[str, StartAt]:
    """Returns where each topic starts or ends.

    The text is one value for all, or JSON, in which a topic left out has `default`.
    """
    if not text.lstrip().startswith("{"):
        return dict.fromkeys(topics, _position(name, text))
    given = _of_topics(name, text, topics)
    return {
        topic: _position(name, str(given[topic])) if topic in given else default for topic in topics
    }


def _of_all(name: str, text: str, default: StartAt) -> StartAt:
    """Returns where topics start or end that are not named; with JSON, at `default`."""
    if text.lstrip().startswith("{"):
        return default
    return _position(name, text)


def _of_topics(name: str, text: str, topics: tuple[str, ...]) -> dict[str, object]:
    """The JSON of an option that has a value for each topic."""
    try:
        given: dict[str, object] = parsed_object(text)
    except ValueError as error:
        raise BadOption(f"{name} is {text!r}, which is not JSON: {error}") from None
    if unknown := sorted(given.keys() - set(topics)):
        raise BadOption(
            f"{name} names {unknown[0]}, which is not among the topics: {', '.join(topics)}"
        )
    return given


def _position(name: str, text: str) -> StartAt:
    try:
        return start_written(text)
    except ValueError as error:
        raise BadOption(f"{name} is {text!r}; {error}") from None
