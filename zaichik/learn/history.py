"""A history of what clients saw, and whether a broker that keeps its promises could produce it.

A pure function over a list of events: no socket, no clock. What it says is proof, never suspicion:
it requires only what follows from the events whatever happened in between, and shows the fewest
events that prove it.

Six things can be wrong:

* `lost`: a message that must still be there never came, or was reported as lag although it cannot
have been dropped;
* `duplicated`: a subscription got an offset twice, or a message has two offsets;
* `reordered`: offsets go back, or two readers (or a reader and its publisher) disagree about an
  offset;
* `invented`: a message that nobody published to the topic, or that was reported as compacted;
* `expired-delivered`: a message was delivered although its retention had surely ended;
* `silent gap`: offsets are missing, and no Lagged covers exactly those.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from zaichik.learn import notation
from zaichik.learn.drawing import Drawing, Step

LOST, DUPLICATED, REORDERED = "lost", "duplicated", "reordered"
BROKER = "broker"
INVENTED, EXPIRED, GAP = "invented", "expired-delivered", "silent gap"


@dataclass(frozen=True, slots=True)
class TopicMade:
    """A topic, and what it promises.

    Attributes:
        ttl_s: how long messages stay readable, in seconds; None is forever.
        capacity: how many it holds.
    """

    at: float
    topic: str
    ttl_s: float | None
    capacity: int


@dataclass(frozen=True, slots=True)
class Published:
    """A batch that was sent, and what is known of it.

    Attributes:
        sent, at: when the request went out, and when its reply came (or the connection broke).
        payloads: of its messages. No two messages of a history have the same.
        first: offset of the first one stored; None if no reply came, so that it may or may not be
            stored.
        dropped: indexes in the batch that were reported as compacted.
    """

    at: float
    sent: float
    publisher: str
    topic: str
    payloads: tuple[bytes, ...]
    first: int | None
    dropped: frozenset[int] = frozenset()

    def offsets(self) -> Iterator[tuple[int, bytes]]:
        """Offsets and payloads of what was stored, if the reply came."""
        if self.first is not None:
            kept = [
                payload for place, payload in enumerate(self.payloads) if place not in self.dropped
            ]
            yield from enumerate(kept, self.first)


@dataclass(frozen=True, slots=True)
class Subscribed:
    """A subscription began at an offset. `sent` is when it was requested."""

    at: float
    sent: float
    session: str
    topic: str
    start: int


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message came.

    Attributes:
        not_before: a time before which the broker cannot have decided to send it, such as that of
            the Subscribe.
    """

    at: float
    session: str
    offset: int
    payload: bytes
    not_before: float


@dataclass(frozen=True, slots=True)
class Lagged:
    """Messages from `first` to before `end` were reported as gone."""

    at: float
    session: str
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Drained:
    """Nothing more came, with free credit, for too long; the topic ended at `end`."""

    at: float
    session: str
    end: int


Event = TopicMade | Published | Subscribed | Delivered | Lagged | Drained


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something that no correct broker does.

    Attributes:
        name: one of the six.
        sentence: what happened.
        proof: the fewest events that show it, in order.
        context: others that explain it: what was published there, when the subscription began.
    """

    name: str
    sentence: str
    proof: tuple[Event, ...]
    context: tuple[Event, ...] = ()

    def story(self) -> tuple[Event, ...]:
        """Context and proof, in order."""
        return tuple(sorted({*self.context, *self.proof}, key=lambda event: event.at))


@dataclass(slots=True)
class _Topic:
    """What is known of a topic from all its publishers."""

    made: TopicMade
    batches: list[Published] = field(default_factory=list)
    by_payload: dict[bytes, Published] = field(default_factory=dict)
    # First report of what is at an offset.
    places: dict[int, tuple[bytes, Event]] = field(default_factory=dict)
    found: dict[bytes, tuple[int, Event]] = field(default_factory=dict)  # and of where a payload is


@dataclass(slots=True)
class _Session:
    """A subscription in progress."""

    began: Subscribed
    cursor: int
    last: Event
    seen: dict[int, Delivered] = field(default_factory=dict)


def check(events: Sequence[Event]) -> Anomaly | None:
    """The anomaly with the shortest proof, and of those the earliest; None if there is none."""
    found = sorted(
        anomalies(events), key=lambda anomaly: (len(anomaly.proof), anomaly.proof[-1].at)
    )
    return found[0] if found else None


def anomalies(events: Sequence[Event]) -> Iterator[Anomaly]:
    """Everything that is wrong with a history."""
    topics = {event.topic: _Topic(event) for event in events if isinstance(event, TopicMade)}
    for event in events:
        if isinstance(event, Published):
            yield from _check_published(topics[event.topic], event)
    sessions: dict[str, _Session] = {}
    for event in sorted(
        (e for e in events if not isinstance(e, TopicMade | Published)), key=lambda e: e.at
    ):
        match event:
            case Subscribed():
                sessions[event.session] = _Session(event, event.start, event)
            case Delivered() | Lagged() | Drained():
                session = sessions[event.session]
                topic = topics[session.began.topic]
                context = _context(topic, session, event)
                for anomaly in _CHECKS[type(event)](topic, session, event):
                    yield replace(anomaly, context=context)


def _context(topic: _Topic, session: _Session, event: Event) -> tuple[Event, ...]:
    """The start of a subscription, and the batches with what it awaits and with what came."""
    known = [topic.places[session.cursor][1]] if session.cursor in topic.places else []
    if isinstance(event, Delivered) and event.payload in topic.by_payload:
        known.append(topic.by_payload[event.payload])
    return (session.began, *(each for each in known if isinstance(each, Published)))


def _check_published(topic: _Topic, batch: Published) -> Iterator[Anomaly]:
    """Two replies must not claim the same offset."""
    topic.batches.append(batch)
    topic.by_payload.update(dict.fromkeys(batch.payloads, batch))
    for offset, payload in batch.offsets():
        if offset in topic.places:
            sentence = f"two batches were acknowledged with offset {offset}"
            yield Anomaly(REORDERED, sentence, (topic.places[offset][1], batch))
            return
        topic.places[offset] = payload, batch
        topic.found[payload] = offset, batch


def _check_delivered(topic: _Topic, session: _Session, event: Delivered) -> Iterator[Anomaly]:
    batch = topic.by_payload.get(event.payload)
    if batch is None:
        yield Anomaly(
            INVENTED,
            f"nobody published {notation.text(event.payload)} to {topic.made.topic}",
            (event,),
        )
        return
    if batch.payloads.index(event.payload) in batch.dropped:
        sentence = f"{notation.text(event.payload)} was reported as compacted, but delivered"
        yield Anomaly(INVENTED, sentence, (batch, event))
    yield from _check_place(topic, event)
    yield from _check_expiry(topic, batch, event)
    position = f"{event.session} was at {session.cursor}"
    if (before := session.seen.get(event.offset)) is not None:
        yield Anomaly(
            DUPLICATED, f"{event.session} got offset {event.offset} twice", (before, event)
        )
    elif event.offset < session.cursor:
        yield Anomaly(
            REORDERED, f"{position}, then got offset {event.offset}", (session.last, event)
        )
    elif event.offset > session.cursor:
        missing = _offsets(session.cursor, event.offset)
        sentence = f"{position}, then got offset {event.offset}: no message or Lagged for {missing}"
        yield Anomaly(GAP, sentence, (session.last, event))
    session.seen[event.offset] = session.seen.get(event.offset, event)
    session.cursor, session.last = max(session.cursor, event.offset + 1), event


def _check_place(topic: _Topic, event: Delivered) -> Iterator[Anomaly]:
    """Everyone must agree which message is at an offset, and at which offset a message is."""
    payload, first_report = topic.places.setdefault(event.offset, (event.payload, event))
    offset, first_sighting = topic.found.setdefault(event.payload, (event.offset, event))
    if payload != event.payload and offset == event.offset:
        return  # the disagreement was reported when the offset was first taken
    if offset != event.offset:
        name = (
            DUPLICATED
            if isinstance(first_sighting, Delivered) and payload == event.payload
            else REORDERED
        )
        payload_text = notation.text(event.payload)
        sentence = f"{payload_text} is at offset {offset}, then at {event.offset}"
        yield Anomaly(name, sentence, (first_sighting, event))
    elif payload != event.payload:
        texts = f"{notation.text(payload)}, then {notation.text(event.payload)}"
        sentence = f"offset {event.offset} has {texts}"
        yield Anomaly(REORDERED, sentence, (first_report, event))


def _check_expiry(topic: _Topic, batch: Published, event: Delivered) -> Iterator[Anomaly]:
    """It was accepted before `batch.at`, and sent after `not_before`: was that too long?"""
    ttl = topic.made.ttl_s
    if ttl is not None and batch.first is not None and event.not_before - batch.at > ttl:
        payload, age = notation.text(event.payload), event.not_before - batch.at
        sentence = f"{payload} came {age:.3f} s after its Published; its retention was {ttl:g} s"
        yield Anomaly(EXPIRED, sentence, (batch, event))


def _check_lagged(topic: _Topic, session: _Session, event: Lagged) -> Iterator[Anomaly]:
    if event.first != session.cursor or event.end <= event.first:
        sentence = (
            f"{event.session} was at {session.cursor}, but was told that "
            f"{_gone(event.first, event.end)}"
        )
        yield Anomaly(GAP, sentence, (session.last, event))
    # A ring's head is at most next offset - capacity, and the next offset is at most what was sent.
    sent = [batch for batch in topic.batches if batch.sent < event.at]
    highest = max(0, sum(len(batch.payloads) for batch in sent) - topic.made.capacity)
    if topic.made.ttl_s is None and event.end > highest:
        sentence = (
            f"{event.session} was told that {_gone(event.first, event.end)}; of everything sent so "
            "far, "
            f"a ring of {topic.made.capacity} cannot have dropped anything from {highest} on"
        )
        yield Anomaly(LOST, sentence, (topic.made, event))
    session.cursor, session.last = max(session.cursor, event.end), event


def _check_drained(topic: _Topic, session: _Session, event: Drained) -> Iterator[Anomaly]:
    if session.cursor < event.end:
        place = topic.places.get(session.cursor)
        proof = (place[1], session.last, event) if place else (session.last, event)
        missing = _offsets(session.cursor, event.end)
        sentence = f"{event.session} is at {session.cursor} with free credit: {missing} never came"
        yield Anomaly(LOST, sentence, proof)


_CHECKS: dict[type, Callable[[_Topic, _Session, Any], Iterator[Anomaly]]] = {
    Delivered: _check_delivered, Lagged: _check_lagged, Drained: _check_drained,
}  # fmt: skip


def _offsets(first: int, end: int) -> str:
    return f"offset {first}" if end == first + 1 else f"offsets {first} to {end - 1}"


def _gone(first: int, end: int) -> str:
    return f"{_offsets(first, end)} {'is' if end == first + 1 else 'are'} gone"


def draw(anomaly: Anomaly) -> Drawing:
    """Its story as a diagram: publishers, the broker, readers."""
    story = anomaly.story()
    last = anomaly.proof[-1]
    match last:
        case TopicMade():
            party = BROKER
        case Published():
            party = last.publisher
        case _:
            party = last.session
    verdict = Step(last.at, party, party, anomaly.name.upper())
    steps = sorted(
        (*(step for event in story for step in _steps(event)), verdict), key=lambda step: step.at
    )
    publishers = sorted({event.publisher for event in story if isinstance(event, Published)})
    readers = dict.fromkeys(
        event.session for event in story if not isinstance(event, Published | TopicMade)
    )
    return Drawing(
        f"{anomaly.name}: {anomaly.sentence}", (*publishers, BROKER, *readers), tuple(steps)
    )


def _steps(event: Event) -> Iterator[Step]:
    match event:
        case TopicMade(at=at):
            yield Step(at, BROKER, BROKER, _what(event))
        case Published(publisher=publisher, first=first):
            yield Step(
                event.sent,
                publisher,
                BROKER,
                f"Publish {_payloads(event.payloads)} to {event.topic}",
            )
            if first is None:
                yield Step(event.at, publisher, publisher, "disconnects before the reply")
            else:
                dropped = (
                    f", dropped {notation.numbers(sorted(event.dropped))}" if event.dropped else ""
                )
                yield Step(
                    event.at, BROKER, publisher, f"Published from offset {first} on{dropped}"
                )
        case Subscribed(session=session, topic=topic, start=start):
            yield Step(event.sent, session, BROKER, f"Subscribe to {topic}")
            yield Step(event.at, BROKER, session, f"Subscribed from offset {start} on")
        case Delivered(at=at, session=session, offset=offset, payload=payload):
            yield Step(at, BROKER, session, f"Messages, offset {offset}: {_payloads([payload])}")
        case Lagged(at=at, session=session, first=first, end=end):
            yield Step(at, BROKER, session, f"Lagged: {_gone(first, end)}")
        case Drained(at=at, session=session, end=end):
            yield Step(at, session, session, f"nothing more came; the topic ended at {end}")


def _what(made: TopicMade) -> str:
    kept = "forever" if made.ttl_s is None else f"{made.ttl_s:g} s"
    return f"topic {made.topic}: retention {kept}, capacity {made.capacity}"


def describe(events: Iterable[Event]) -> tuple[str, ...]:
    """The events as lines of text."""
    return tuple(_line(event) for event in events)


def _line(event: Event) -> str:
    at = f"{event.at:8.3f} s"
    match event:
        case TopicMade():
            return f"{at}  {_what(event)}"
        case Published(publisher=publisher, topic=topic, payloads=payloads, first=first):
            reply = "no reply" if first is None else f"reply: from offset {first} on"
            dropped = (
                f", dropped {notation.numbers(sorted(event.dropped))}" if event.dropped else ""
            )
            return f"{at}  {publisher} published {_payloads(payloads)} to {topic}; {reply}{dropped}"
        case Subscribed(session=session, topic=topic, start=start):
            return f"{at}  {session} subscribed to {topic} from offset {start} on"
        case Delivered(session=session, offset=offset, payload=payload):
            return f"{at}  {session} got offset {offset}: {payload.decode('ascii', 'replace')}"
        case Lagged(session=session, first=first, end=end):
            return f"{at}  {session} was told that {_gone(first, end)}"
        case Drained(session=session, end=end):
            return f"{at}  nothing more came to {session}; the topic ended at {end}"


def _payloads(payloads: Sequence[bytes]) -> str:
    return " ".join(payload.decode("ascii", "replace") for payload in payloads)
