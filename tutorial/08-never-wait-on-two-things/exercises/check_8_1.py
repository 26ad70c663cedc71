"""Questions for exercise 8.1."""

from zaichik.learn.exercise import Exercise, must
from zaichik.learn.lab import running

EXERCISE = Exercise(
    "Enough subscriptions",
    hints=(
        (
            "A conversation knows its readers already: they're in a dict. How many there are is one call away, and the "
            "`require` belongs in `_subscribe`, before anything is done."
        ),
        (
            "TOO_MANY_SUBSCRIPTIONS is 69: put it into errors.py, and the limit into limits.py, beside the others. "
            "Require that there are fewer readers than the limit before you add one."
        ),
    ),
    program="broker.py",
)
ENOUGH, TOO_MANY_SUBSCRIPTIONS = 100, 69


def _subscribed(client):
    """As many subscriptions as a connection may have; returns the last one's id."""
    for number in range(1, ENOUGH + 1):
        reply = client.ask("Subscribe", topic="news")
        must(reply.name, "Subscribed", f"the answer to subscription {number}")
    return reply.id


@EXERCISE.asks("a hundred subscriptions, and not one more", hint="Who counts the subscriptions of a connection?")
def not_one_more(program):
    with running(program) as broker:
        client = broker.client()
        _subscribed(client)
        reply = client.ask("Subscribe", topic="news")
        must(reply.name, "Error", f"the answer to subscription {ENOUGH + 1}")
        must(reply["code"], TOO_MANY_SUBSCRIPTIONS, "the error's code")
        must(client.publish("news", b"hello")["subscribers"], ENOUGH, "subscribers, after that")


@EXERCISE.asks(
    "an Unsubscribe makes room",
    hint="Count the subscriptions there are, not those there have ever been.",
)
def makes_room(program):
    with running(program) as broker:
        client = broker.client()
        last = _subscribed(client)
        must(client.ask("Subscribe", topic="news").name, "Error", f"the answer to subscription {ENOUGH + 1}")
        must(client.ask("Unsubscribe", subscription=last).name, "Unsubscribed", "the answer to an Unsubscribe")
        must(client.ask("Subscribe", topic="news").name, "Subscribed", "the answer to a Subscribe after it")
        must(client.ask("Subscribe", topic="news").name, "Error", "the answer to one more")


@EXERCISE.asks(
    "each connection has a hundred of its own",
    hint="The limit keeps one client from asking too much. What others have is none of its business.",
)
def of_its_own(program):
    with running(program) as broker:
        _subscribed(broker.client())
        reply = broker.client().ask("Subscribe", topic="news")
        must(reply.name, "Subscribed", f"the answer to another client, while one has {ENOUGH} subscriptions")
