"""Questions for exercise 19.2."""

from zaichik.learn.caller import Silence
from zaichik.learn.exercise import Exercise, Wrong, must
from zaichik.learn.lab import running

EXERCISE = Exercise(
    "One of a key at a time",
    hints=(
        (
            "A Subscribe with both flags has the body of one with SHARED. So `layouts.py` needs two lines more: which "
            "flags there may be, and which body goes with 0x06. If that is a body of its own, with a `Computed` field "
            "at its end, then a new queue finds that field in `wanted`, and can remember it."
        ),
        (
            "In `first`, a job that waits may go only if no job of its key is open that has a smaller offset. What's "
            "new is harder: if it must wait, look at the one after it. So open it as a job that waits (with no "
            "ticket, since nobody has had it), move `next` on, and try again. A job must know its key for all that."
        ),
    ),
    program="broker.py",
)

SHARED, BY_KEY = 2, 4
DONE, RETRY, RELEASE = 0, 1, 3
DELAYED, DAY_MS = 1, 86_400_000
SHORT_S = 0.5


class Worker:
    """A client that works in the order of keys, unless it says otherwise."""

    def __init__(self, broker, **how):
        self.client = broker.client()
        usual = {"flags": SHARED | BY_KEY, "name": "packers", "timeout_ms": 0, "max_deliveries": 0, "tickets": []}
        reply = self.client.ask("Subscribe", topic="orders", **(usual | how))
        must(reply.name, "Subscribed", "a Subscribe with SHARED and BY_KEY is answered with")
        self.id = reply.id

    def take(self, count):
        """The next so many deliveries."""
        return [self.client.frame() for _ in range(count)]

    def must_take(self, *offsets, asked):
        """Take these, in this order."""
        came = self.take(len(offsets))
        must([frame["base"] for frame in came], [*offsets], f"the orders handed out, {asked}")
        return came

    def must_wait(self, asked):
        """Nothing may come."""
        self.client.ask("Ping")  # what the broker had for us by now has come before its second answer
        self.client.ask("Ping")
        try:
            frame = self.client.frame(SHORT_S)
        except Silence:
            return
        raise Wrong(f"{asked}: order {frame['base']} was handed out")

    def settle(self, frame, outcome, **how):
        """Say what has become of it."""
        self.client.ask("Settle", subscription=self.id, outcome=outcome, tickets=[frame["ticket"]], **how)


def publish(broker, *keys):
    """A message for each key."""
    broker.client().ask("Publish", topic="orders", batch=[(key, b"apples") for key in keys])


@EXERCISE.asks(
    "of each key, one message is open at a time, the earliest",
    hint="Before you hand out a message, ask: is one of its key open?",
)
def one_of_a_key(program):
    with running(program) as broker:
        worker = Worker(broker)
        publish(broker, b"alice", b"alice", b"bob", b"alice")
        first, _ = worker.must_take(0, 2, asked="of alice, alice, bob, alice")
        worker.must_wait("order 0 of alice is open")
        worker.settle(first, DONE)
        worker.must_take(1, asked="after order 0 is done")
        worker.must_wait("order 1 of alice is open")


@EXERCISE.asks("messages without a key wait for nobody", hint="An empty key is no key.")
def without_a_key(program):
    with running(program) as broker:
        worker = Worker(broker)
        publish(broker, b"", b"alice", b"", b"")
        worker.must_take(0, 1, 2, 3, asked="three of them without a key")


@EXERCISE.asks(
    "the order of a key holds for all workers",
    hint="It's the queue that knows what is open, and not one worker.",
)
def several_workers(program):
    with running(program) as broker:
        first, second = Worker(broker, credit=1), Worker(broker, credit=1)
        publish(broker, b"alice", b"alice")
        (order,) = first.must_take(0, asked="to the first of two workers")
        second.must_wait("order 0 of alice is open at the other worker")
        first.settle(order, RELEASE)
        publish(broker, b"bob")
        both = sorted(frame["base"] for worker in (first, second) for frame in worker.take(1))
        must(both, [0, 2], "the orders handed out, after order 0 of alice was released and bob has ordered")


@EXERCISE.asks(
    "a message that waits to come again holds up its key",
    hint="A job that has failed is open, too: it's with nobody, and not done. The next of its key must wait for it.",
)
def failed(program):
    with running(program) as broker:
        worker = Worker(broker)
        publish(broker, b"alice", b"alice", b"bob")
        first, _ = worker.must_take(0, 2, asked="of alice, alice, bob")
        worker.settle(first, RETRY, flags=DELAYED, delay_ms=DAY_MS)
        worker.must_wait("order 0 of alice comes again in a day")


@EXERCISE.asks(
    "a message that has waited for another of its key is new when it comes",
    hint="It was opened before anybody had it. REDELIVERED is for what somebody had.",
)
def is_new(program):
    with running(program) as broker:
        worker = Worker(broker)
        publish(broker, b"alice", b"alice")
        (order,) = worker.must_take(0, asked="of alice, alice")
        worker.settle(order, DONE)
        (order,) = worker.must_take(1, asked="after order 0 is done")
        must((order["number"], order.flags & 2), (1, 0), "its number, and the flag REDELIVERED")


@EXERCISE.asks("without BY_KEY, nothing has changed", hint="Order costs time. Only those who ask for it have it.")
def without(program):
    with running(program) as broker:
        worker = Worker(broker, flags=SHARED)
        publish(broker, b"alice", b"alice")
        worker.must_take(0, 1, asked="of alice, alice, to a worker without BY_KEY")
