"""Questions for exercise 7.1."""

from zaichik.learn.exercise import Exercise, must
from zaichik.learn.lab import running
from zaichik.learn.layouts import CAPACITY, MAX_BYTES, MAX_KEYS

EXERCISE = Exercise(
    "A topic that wants too much",
    hints=(
        (
            "settings.py judges each setting in a loop: `good` says whether its value makes sense. The two durations "
            "have a rule of their own there already."
        ),
        (
            "Give the capacity a rule, too, in a branch of its own: at least 1, at most a million. The other settings "
            "keep theirs."
        ),
    ),
    program="broker.py",
)
MILLION, INVALID_FIELD = 1_000_000, 64


@EXERCISE.asks("a capacity above a million is refused", hint="Which line of settings.py lets any large number pass?")
def too_much(program):
    with running(program) as broker:
        client = broker.client()
        for wanted in (MILLION + 1, 2**64 - 1):
            reply = client.ask("CreateTopic", topic="greedy", settings={CAPACITY: wanted})
            must(reply.name, "Error", f"the answer to a capacity of {wanted:,}")
            must((reply["code"], str(reply["field"])), (INVALID_FIELD, "settings"), "the error's code and field")


@EXERCISE.asks("a million is fine", hint="Is it < or <= that you mean?")
def just_enough(program):
    with running(program) as broker:
        reply = broker.client().ask("CreateTopic", topic="large", settings={CAPACITY: MILLION})
        must(reply.name, "TopicCreated", "the answer to a capacity of 1,000,000")
        must(dict(reply["settings"])[CAPACITY], MILLION, "the capacity that the topic has got")


@EXERCISE.asks("other settings may be larger", hint="A million messages, but max_bytes is 67,108,864 by default.")
def others(program):
    with running(program) as broker:
        wanted = {MAX_BYTES: 100 * MILLION, MAX_KEYS: 2 * MILLION}
        reply = broker.client().ask("CreateTopic", topic="heavy", settings=wanted)
        must(reply.name, "TopicCreated", "the answer to a max_bytes of 100,000,000 and a max_keys of 2,000,000")


@EXERCISE.asks("a request that is refused makes no topic", hint="Judge the settings first, and make the topic then.")
def nothing_done(program):
    with running(program) as broker:
        client = broker.client()
        client.ask("CreateTopic", topic="greedy", settings={CAPACITY: MILLION + 1})
        reply = client.ask("CreateTopic", topic="greedy", settings={CAPACITY: 5})
        must((reply.name, reply["created"]), ("TopicCreated", 1), "a second try, with a capacity of 5")
