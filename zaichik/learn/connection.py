"""A connection of a trial, as a client has it: requests and their replies, events, and what each of them must be."""

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import SocketStream

from zaichik.learn import layouts, shown, wire
from zaichik.learn.failure import Failed, Skipped, compare, difference, first_wrong_byte
from zaichik.learn.ledger import Ledgers
from zaichik.learn.line import Line
from zaichik.learn.wire import Frame, Message

if TYPE_CHECKING:
    from zaichik.learn.trial import Trial

Pair = tuple[bytes, bytes]  # a message's key and payload
Settings = dict[int, int] | Sequence[tuple[int, int]]


class Connection(Line):
    """A line with somebody at its end who counts requests, and keeps events until they are asked for.

    Attributes:
        ids: numbers for requests.
        events: what came unasked and nobody has looked at yet, in order.
        limits: the Welcome, once it has come.
    """

    limits: Frame

    def __init__(self, stream: SocketStream, trial: "Trial", number: int) -> None:
        super().__init__(stream, trial, number)
        self.ids = itertools.count(1)
        self.events: list[Frame] = []
        self._due: dict[int, str] = {}  # the name of the reply to a request, by its id
        self._ledgers = Ledgers()

    def _take(self, size: int) -> Frame:
        frame = super()._take(size)
        self._ledgers.came(frame)
        return frame

    # -- requests and replies --------------------------------------------------------------------------------

    async def send(self, name: str, /, *, frame_id: int | None = None, **fields: Any) -> int:
        """Send a request in the trial's pattern. Returns its id."""
        used = next(self.ids) if frame_id is None else frame_id
        self._due[used] = layouts.reply_to(name)
        self._ledgers.asked(name, used, layouts.DEFAULTS.get(name, {}) | fields)
        await self.send_frame(wire.encode(name, frame_id=used, **fields))
        return used

    async def reply(self, frame_id: int) -> Frame:
        """The next reply, which must be the one to this request. Events on the way are kept."""
        due = self._due.pop(frame_id, "a reply")
        while (frame := await self.read(awaited=f"{due} with id {frame_id}")).is_event:
            self.events.append(frame)
        if frame.id != frame_id:
            compare(frame, frame.name, {"id": frame_id}, self._asked)
        return frame

    async def ask(self, name: str, /, **fields: Any) -> Frame:
        """Send a request; what answers it, success or not."""
        return await self.reply(await self.send(name, **fields))

    async def ok(self, name: str, /, *, expect: dict[str, Any] | None = None, **fields: Any) -> Frame:
        """Send a request that must succeed, with a reply whose fields are these."""
        frame = await self.ask(name, **fields)
        self.must_be(frame, layouts.reply_to(name), flags=0, **(expect or {}))
        return frame

    async def refused(self, error: str, name: str, /, *, at: str | None = None, **fields: Any) -> Frame:
        """Send a request that must fail in just this way; `at` is the field that the Error must name."""
        frame = await self.ask(name, **fields)
        self.must_be_error(frame, error, request_type=layouts.TYPES[name], at=at)
        return frame

    async def offered(self, name: str, what: str = "", /, *, unless: str = "type", **fields: Any) -> Frame:
        """What answers a request for something that a broker may leave out.

        Raises:
            Skipped: it says that it does: the Error is UNSUPPORTED, and names the field `unless`.
        """
        frame = await self.ask(name, **fields)
        if frame.name == "Error" and (frame["code"], frame["field"]) == (layouts.ERROR_CODES["UNSUPPORTED"], unless):
            raise Skipped(f"this broker does not offer {what or name}, and need not")
        return frame

    async def receives(self, name: str, **fields: Any) -> Frame:
        """The next frame, which must be this one."""
        frame = await self.read(awaited=name)
        self.must_be(frame, name, **fields)
        return frame

    def must_be(self, frame: Frame, name: str, **fields: Any) -> None:
        """Judge a frame."""
        compare(frame, name, fields, self._asked)

    def must_be_error(
        self, frame: Frame, error: str, *, request_type: int | None = None, at: str | None = None, **fields: Any
    ) -> None:
        """Judge an Error: its code, its flags, what it names, and other fields that are given."""
        named = {"request_type": request_type, "field": at}
        fields |= {field: value for field, value in named.items() if value is not None}
        about = {"code": layouts.ERROR_CODES[error], "flags": layouts.error_flags(error)} | fields
        compare(frame, "Error", about, self._asked)

    async def ended_by(self, error: str, request_type: int = 0, **fields: Any) -> None:
        """Receive a fatal Error, with id 0 unless fields say otherwise, and then the end of the stream."""
        frame = await self.read(awaited=f"the error {error}")
        self.must_be_error(frame, error, request_type=request_type, **({"id": 0} | fields))
        await self.ends()

    async def hello(self, **fields: Any) -> Frame:
        """Say Hello; the Welcome."""
        self.limits = await self.ok("Hello", **fields)
        return self.limits

    async def ping(self) -> None:
        """A round trip."""
        value = self._trial.rng.getrandbits(64)
        await self.ok("Ping", value=value, expect={"value": value})

    async def create(self, topic: str, settings: Settings = (), /, **expect: Any) -> Frame:
        """Create a topic with settings; fields by name are those of the reply."""
        return await self.ok("CreateTopic", topic=topic, settings=settings, expect=expect)

    async def publish(self, topic: str, *messages: Pair, **expect: Any) -> Frame:
        """Publish a batch that must be accepted."""
        return await self.ok("Publish", topic=topic, batch=messages, expect=expect)

    async def publish_singly(self, topic: str, messages: Iterable[Pair], **expect: Any) -> None:
        """Publish each of these messages as a batch of its own; with first_offset, that is the first one's."""
        first = expect.pop("first_offset", None)
        for offset, message in enumerate(messages, first or 0):
            await self.publish(topic, message, **expect if first is None else expect | {"first_offset": offset})

    async def subscribe(self, topic: str, *, expect: dict[str, Any] | None = None, **how: Any) -> int:
        """Subscribe; the subscription's id."""
        return (await self.ok("Subscribe", topic=topic, expect=expect, **how)).id

    async def commit(self, subscription: int, following: int) -> None:
        """Settle everything below an offset."""
        await self.ok("Commit", subscription=subscription, next=following, expect={"committed": following})

    # -- events ----------------------------------------------------------------------------------------------

    async def event(self, subscription: int, *, awaited: str = "an event") -> Frame:
        """The next event of a subscription."""
        for index, frame in enumerate(self.events):
            if frame.id == subscription:
                return self.events.pop(index)
        while (frame := await self.read(awaited=awaited)).is_event:
            if frame.id == subscription:
                return frame
            self.events.append(frame)
        raise Failed(f"{awaited} was due, and a reply came that nobody had asked for", frame=frame)

    async def told(self, subscription: int, name: str, **fields: Any) -> Frame:
        """The next event of a subscription, which must be this one."""
        frame = await self.event(subscription, awaited=name)
        self.must_be(frame, name, **fields)
        return frame

    async def has_event(self, subscription: int, seconds: float) -> bool:
        """Whether an event of a subscription comes within these seconds; it is kept."""
        with anyio.move_on_after(seconds):
            while not any(frame.id == subscription for frame in self.events):
                frame = await self.read(awaited="an event", patience=2 * seconds)  # so it is we who give up
                if not frame.is_event:
                    raise Failed("a reply came that nobody had asked for", frame=frame)
                self.events.append(frame)
            return True
        return False

    async def messages(self, subscription: int, first: int, pairs: Sequence[Pair]) -> None:
        """Receive just these messages, from this offset on, in however many pieces."""
        done = 0
        while done < len(pairs):
            awaited = f"the message with offset {first + done}"
            frame = await self.event(subscription, awaited=awaited)
            self.must_be(frame, "Messages", base=first + done)
            came = frame.messages
            should = list(pairs[done : done + len(came)])
            if frame["batch"] != should:
                problem = ": ".join(filter(None, (self._ledgers.overdrawn(subscription), difference(came, should))))
                wrong = first_wrong_byte(frame.span("batch"), should)
                raise self._failed(problem, expected=shown.batch(should), frame=frame, wrong=wrong)
            if [message.offset for message in came] != list(range(first + done, first + done + len(came))):
                raise self._failed("offsets were left out, though no message was missing", frame=frame)
            done += len(came)

    async def next_messages(self, subscription: int) -> list[Message]:
        """What the next event brings, which must be messages."""
        frame = await self.event(subscription, awaited="messages")
        self.must_be(frame, "Messages")
        return frame.messages

    async def take(self, subscription: int, count: int) -> list[Message]:
        """The next messages of a subscription, so many at least."""
        came: list[Message] = []
        while len(came) < count:
            came += await self.next_messages(subscription)
        return came

    async def lagged(self, subscription: int, from_offset: int, to_offset: int) -> None:
        """Receive just this report of lag."""
        frame = await self.event(subscription, awaited=f"Lagged from {from_offset} to {to_offset}")
        self.must_be(frame, "Lagged", from_offset=from_offset, to_offset=to_offset)

    async def nothing(self, why: str) -> None:
        """Make sure that no event comes: a quiet period, and a round trip that would bring up what is on its way.

        That something will never come cannot be seen, so this may miss a broker that is wrong and slow. It never
        accuses one that is right.
        """
        await self.flush()
        await anyio.sleep(self._trial.quiet)
        asked = self._asked
        await self.ping()
        if self.events:
            problem = f"{self._ledgers.overdrawn(self.events[0].id) or why}, and yet {self.events[0].name} came"
            raise Failed(problem, asked=asked, expected=f"nothing: {why}", frame=self.events[0])
