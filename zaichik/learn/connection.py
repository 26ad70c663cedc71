"""A connection of a trial, as a client sees it: requests, replies, events, and checks of them."""

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import SocketStream

from zaichik.learn import layouts, notation, wire
from zaichik.learn.failure import Failure, Skipped, compare, difference, first_wrong_byte
from zaichik.learn.ledger import Ledgers
from zaichik.learn.line import Line
from zaichik.learn.wire import Frame, Message

if TYPE_CHECKING:
    from zaichik.learn.trial import Trial

Pair = tuple[bytes, bytes]  # a message's key and payload
Settings = dict[int, int] | Sequence[tuple[int, int]]


class Connection(Line):
    """A line that numbers its requests, and keeps events until they are asked for.

    Attributes:
        ids: numbers for requests.
        events: events that have not been taken yet, in order.
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

    # -- requests and replies --------------------------------------------------------------------

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
        """Send a request, and return its reply, whether success or Error."""
        return await self.reply(await self.send(name, **fields))

    async def ok(
        self, name: str, /, *, expect: dict[str, Any] | None = None, **fields: Any
    ) -> Frame:
        """Send a request that must succeed, with these fields in its reply."""
        frame = await self.ask(name, **fields)
        self.must_be(frame, layouts.reply_to(name), **({"flags": 0} | (expect or {})))
        return frame

    async def expect_error(
        self, error: str, name: str, /, *, at: str | None = None, **fields: Any
    ) -> Frame:
        """Send a request that must fail with this error; `at` is the field it must name."""
        frame = await self.ask(name, **fields)
        self.must_be_error(frame, error, request_type=layouts.TYPES[name], at=at)
        return frame

    async def ask_optional(
        self, name: str, what: str = "", /, *, unless: str = "type", **fields: Any
    ) -> Frame:
        """Send a request for an optional feature, and return its reply.

        Raises:
            Skipped: the broker does not have it: the Error is UNSUPPORTED, and names the field
                `unless`.
        """
        frame = await self.ask(name, **fields)
        if frame.name == "Error" and (frame["code"], frame["field"]) == (
            layouts.ERROR_CODES["UNSUPPORTED"],
            unless,
        ):
            raise Skipped(f"this broker does not offer {what or name}, which is optional")
        return frame

    async def expect_frame(self, name: str, **fields: Any) -> Frame:
        """Receive a frame, which must be this one."""
        frame = await self.read(awaited=name)
        self.must_be(frame, name, **fields)
        return frame

    def must_be(self, frame: Frame, name: str, **fields: Any) -> None:
        """Check a frame's name, and those fields that are given."""
        compare(frame, name, fields, self._asked)

    def must_be_error(
        self,
        frame: Frame,
        error: str,
        *,
        request_type: int | None = None,
        at: str | None = None,
        **fields: Any,
    ) -> None:
        """Check an Error: its code, its flags, what it names, and other fields that are given."""
        named = {"request_type": request_type, "field": at}
        fields |= {field: value for field, value in named.items() if value is not None}
        about = {"code": layouts.ERROR_CODES[error], "flags": layouts.error_flags(error)} | fields
        compare(frame, "Error", about, self._asked)

    async def expect_fatal(self, error: str, request_type: int = 0, **fields: Any) -> None:
        """Receive a fatal Error, with id 0 unless fields say otherwise, and then the end."""
        frame = await self.read(awaited=f"the error {error}")
        self.must_be_error(frame, error, request_type=request_type, **({"id": 0} | fields))
        await self.expect_end()

    async def hello(self, **fields: Any) -> Frame:
        """Say Hello. Returns the Welcome."""
        self.limits = await self.ok("Hello", **fields)
        return self.limits

    async def ping(self) -> None:
        """A round trip."""
        value = self._trial.rng.getrandbits(64)
        await self.ok("Ping", value=value, expect={"value": value})

    async def create(self, topic: str, settings: Settings = (), /, **expect: Any) -> Frame:
        """Create a topic with settings; keyword arguments are fields that the reply must have."""
        return await self.ok("CreateTopic", topic=topic, settings=settings, expect=expect)

    async def publish(self, topic: str, *messages: Pair, **expect: Any) -> Frame:
        """Publish a batch that must be accepted."""
        return await self.ok("Publish", topic=topic, batch=messages, expect=expect)

    async def publish_singly(self, topic: str, messages: Iterable[Pair], **expect: Any) -> None:
        """Publish each message as its own batch; first_offset is the offset of the first."""
        first = expect.pop("first_offset", None)
        for offset, message in enumerate(messages, first or 0):
            await self.publish(
                topic, message, **expect if first is None else expect | {"first_offset": offset}
            )

    async def subscribe(
        self, topic: str, *, expect: dict[str, Any] | None = None, **how: Any
    ) -> int:
        """Subscribe. Returns the subscription's id."""
        return (await self.ok("Subscribe", topic=topic, expect=expect, **how)).id

    async def commit(self, subscription: int, following: int) -> None:
        """Settle everything below an offset."""
        await self.ok(
            "Commit", subscription=subscription, next=following, expect={"committed": following}
        )

    # -- events ----------------------------------------------------------------------------------

    async def event(self, subscription: int, *, awaited: str = "an event") -> Frame:
        """The next event of a subscription."""
        for index, frame in enumerate(self.events):
            if frame.id == subscription:
                return self.events.pop(index)
        while (frame := await self.read(awaited=awaited)).is_event:
            if frame.id == subscription:
                return frame
            self.events.append(frame)
        raise Failure(f"{awaited} was due, but a reply came to no request", frame=frame)

    async def expect_event(self, subscription: int, name: str, **fields: Any) -> Frame:
        """Receive an event of a subscription, which must be this one."""
        frame = await self.event(subscription, awaited=name)
        self.must_be(frame, name, **fields)
        return frame

    async def has_event(self, subscription: int, seconds: float) -> bool:
        """Whether an event of a subscription comes within this many seconds; it is kept."""
        with anyio.move_on_after(seconds):
            while not any(frame.id == subscription for frame in self.events):
                # So that our own timeout comes first.
                frame = await self.read(awaited="an event", patience=2 * seconds)
                if not frame.is_event:
                    raise Failure("a reply came to no request", frame=frame)
                self.events.append(frame)
            return True
        return False

    async def expect_messages(self, subscription: int, first: int, pairs: Sequence[Pair]) -> None:
        """Receive exactly these messages, from this offset on, in any number of frames."""
        done = 0
        while done < len(pairs):
            awaited = f"the message with offset {first + done}"
            frame = await self.event(subscription, awaited=awaited)
            self.must_be(frame, "Messages", base=first + done)
            came = frame.messages
            should = list(pairs[done : done + len(came)])
            if frame["batch"] != should:
                problem = ": ".join(
                    filter(None, (self._ledgers.overdrawn(subscription), difference(came, should)))
                )
                wrong = first_wrong_byte(frame.span("batch"), should)
                raise self._failed(
                    problem, expected=notation.batch(should), frame=frame, wrong=wrong
                )
            if [message.offset for message in came] != list(
                range(first + done, first + done + len(came))
            ):
                problem = "offsets were skipped, although no message was missing"
                raise self._failed(problem, frame=frame)
            done += len(came)

    async def next_messages(self, subscription: int) -> list[Message]:
        """The messages in the next event, which must be a Messages frame."""
        frame = await self.event(subscription, awaited="messages")
        self.must_be(frame, "Messages")
        return frame.messages

    async def take(self, subscription: int, count: int) -> list[Message]:
        """The next messages of a subscription, at least this many."""
        came: list[Message] = []
        while len(came) < count:
            came += await self.next_messages(subscription)
        return came

    async def expect_lag(self, subscription: int, from_offset: int, to_offset: int) -> None:
        """Receive exactly this Lagged."""
        frame = await self.event(subscription, awaited=f"Lagged from {from_offset} to {to_offset}")
        self.must_be(frame, "Lagged", from_offset=from_offset, to_offset=to_offset)

    async def expect_no_event(self, why: str) -> None:
        """Make sure that no event comes in a quiet period, nor in a round trip after it.

        That something will never come cannot be observed, so this may miss a broker that is wrong
        and slow. It never accuses one that is right.
        """
        await self.flush()
        await anyio.sleep(self._trial.quiet)
        asked = self._asked
        await self.ping()
        if self.events:
            because = self._ledgers.overdrawn(self.events[0].id) or why
            problem = f"{because}, but {self.events[0].name} came"
            raise Failure(problem, asked=asked, expected=f"nothing: {why}", frame=self.events[0])
