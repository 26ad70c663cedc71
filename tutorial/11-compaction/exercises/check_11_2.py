"""Questions for exercise 11.2."""

from zaichik.learn.exercise import Exercise, must
from zaichik.learn.lab import running
from zaichik.learn.layouts import FOREVER, TTL, WINDOW

EXERCISE = Exercise(
    "A window that hides a key",
    hints=(
        (
            "`check_settings` looks at one setting after the other, and this is about two of them. So it can be judged "
            "when all of them are known: after the loop."
        ),
        (
            "What isn't named has its default: the defaults and what was named, laid over each other with `|`, are the "
            "settings the topic would have. If the retention is neither 0 nor forever, require that the window isn't "
            "longer."
        ),
    ),
    program="broker.py",
)
INVALID_FIELD = 64


def _answer(client, settings):
    """What a CreateTopic with these settings gets: None if it succeeds, else the error's code and field."""
    _answer.count = getattr(_answer, "count", 0) + 1
    reply = client.ask("CreateTopic", topic=f"topic {_answer.count}", settings=settings)
    return None if reply.name == "TopicCreated" else (reply["code"], str(reply["field"]))


@EXERCISE.asks(
    "a window longer than the retention is refused",
    hint="The first message of a key has gone, and its window still keeps others out: a newcomer never sees this key.",
)
def refused(program):
    with running(program) as broker:
        client = broker.client()
        for window in (1001, FOREVER):
            asked = f"the answer to a retention of 1,000 ms and a window of {window:,} ms"
            must(_answer(client, {TTL: 1000, WINDOW: window}), (INVALID_FIELD, "settings"), asked)


@EXERCISE.asks(
    "in any order",
    hint="A request may name the window first, or the retention. Judge when you know both.",
)
def any_order(program):
    with running(program) as broker:
        client = broker.client()
        for settings in ([(TTL, 1000), (WINDOW, 2000)], [(WINDOW, 2000), (TTL, 1000)]):
            must(
                _answer(client, settings),
                (INVALID_FIELD, "settings"),
                f"the answer to the settings {settings}, in this order",
            )


@EXERCISE.asks("a window as long as the retention is fine", hint="Longer is longer: what about equal, and shorter?")
def equal(program):
    with running(program) as broker:
        client = broker.client()
        for window in (1000, 999, 0):
            asked = f"the answer to a retention of 1,000 ms and a window of {window:,} ms"
            must(_answer(client, {TTL: 1000, WINDOW: window}), None, asked)


@EXERCISE.asks(
    "without a retention, and with one that never ends, any window is fine",
    hint="0 isn't the shortest retention: it means that there is none. And a setting that isn't named has its default.",
)
def no_retention(program):
    with running(program) as broker:
        client = broker.client()
        for settings in ({WINDOW: 1000}, {TTL: 0, WINDOW: FOREVER}, {TTL: FOREVER, WINDOW: FOREVER}):
            must(_answer(client, settings), None, f"the answer to the settings {settings}")
