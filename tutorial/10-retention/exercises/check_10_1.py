"""Questions for exercise 10.1."""

from functools import cache

from zaichik.learn.caller import Silence
from zaichik.learn.exercise import Exercise, Wrong, must
from zaichik.learn.lab import running
from zaichik.learn.layouts import EARLIEST, FOREVER, TTL

EXERCISE = Exercise(
    "All topics together",
    hints=(
        (
            "A topic counts its bytes already, and knows how to drop its oldest batch: `publish` does it for "
            "`max_bytes`. Make a method of that line. `Topics` is a dict of all topics: the limit belongs there."
        ),
        (
            "After each publish, as long as the sum over all topics is too large, find the topic with the most bytes "
            "(max takes a key) and let it drop its oldest batch. One batch at a time: then look again, because now "
            "another topic may be the largest."
        ),
    ),
    program="broker.py",
)
MIB = 1_048_576
PAYLOAD = bytes(MIB - 1024)  # with its offsets a batch of a little less than 1 MiB
EACH, MOST, NOT_MUCH_LESS, HALF = 36, 64, 62, 30


def _kept(broker, topic):
    """How many messages of a topic can still be read."""
    reply = broker.client().ask("Subscribe", topic=topic, start=EARLIEST, credit=1)
    return reply["live"] - reply["start"]


@cache
def _filled(program):
    """How many messages are kept of a small topic and of two that have had more than there is room for."""
    with running(program) as broker:
        publisher = broker.client()
        for topic in ("small", "one", "two"):
            publisher.ask("CreateTopic", topic=topic, settings={TTL: FOREVER})
        publisher.publish("small", b"the oldest message of all")
        try:
            for topic in ("one", "two"):
                for number in range(EACH):
                    must(publisher.publish(topic, PAYLOAD).name, "Published", f"publish {number + 1} to {topic}")
        except (Silence, ConnectionError) as error:
            raise Wrong(f"publishing {2 * EACH} batches of 1 MiB: {error}") from None
        return {topic: _kept(broker, topic) for topic in ("small", "one", "two")}


@EXERCISE.asks(
    "all topics together keep at most 64 MiB",
    hint="Each topic looks at its own bytes. Who looks at the sum, and when?",
)
def bounded(program):
    kept = _filled(program)
    if kept["one"] + kept["two"] > MOST:
        raise Wrong(f"two topics, {EACH} batches of 1 MiB to each: {kept['one']} and {kept['two']} of them are kept")


@EXERCISE.asks(
    "nothing goes that could stay",
    hint="Drop one batch, the oldest of a topic, and look again whether it's enough.",
)
def not_too_much(program):
    kept = _filled(program)
    if kept["one"] + kept["two"] < NOT_MUCH_LESS:
        raise Wrong(f"there's room for {MOST} batches of 1 MiB; {kept['one']} and {kept['two']} are kept")


@EXERCISE.asks(
    "the topic that keeps the most gives way",
    hint="Not the one that has just grown, and not the one with the oldest message: the largest, each time you drop.",
)
def largest(program):
    kept = _filled(program)
    must(kept["small"], 1, "messages kept of a topic that has had one message, of 25 bytes")
    if min(kept["one"], kept["two"]) < HALF:
        raise Wrong(
            f"{EACH} batches to each of two topics: {kept['one']} and {kept['two']} are kept, and not half each"
        )
