"""Questions for exercise 16.1."""

from contextlib import contextmanager

from zaichik.learn.exercise import Exercise, must
from zaichik.learn.lab import running

EXERCISE = Exercise(
    "A topic that goes",
    hints=(
        (
            "Four files have a part in it. layouts.py: what a Delete looks like. conversation.py: one more case, which "
            "needs the header's flags. topics.py: the dict loses a topic, and remembers the greatest epoch that has "
            "gone. readers.py: a reader that has been cut off has one more event, and it needs no credit."
        ),
        (
            "Judge everything before you change anything: is there such a topic, is it the one with this epoch, and, "
            "if the flag is set, has it neither messages nor readers? Then take it out of the dict, and tell each "
            "reader of the topic. A reader that rings is asked for its next event; let that be the end, whatever else "
            "there would be. A new topic's epoch is the time, or one more than the greatest that has gone."
        ),
    ),
    program="broker.py",
)
IF_EMPTY, DELETED = 1, 4  # a flag of Delete; a code of SubscriptionEnded
NO_SUCH_TOPIC, EPOCH_CHANGED, NOT_EMPTY = 66, 73, 81
TTL, AN_HOUR_MS, LIVES = 1, 3_600_000, 5


@contextmanager
def _clients(program, count=1):
    """Clients of a broker. They leave before it stops, or else it would wait for them."""
    with running(program) as broker:
        clients = [broker.client() for _ in range(count)]
        try:
            yield clients
        finally:
            for client in clients:
                client.socket.close()


def _made(client, topic="orders"):
    """Create a topic that keeps its messages for an hour. Returns the answer."""
    return client.ask("CreateTopic", topic=topic, settings={TTL: AN_HOUR_MS})


def _must_go(client, topic="orders", **how):
    reply = client.ask("Delete", topic=topic, **how)
    code = f", with the code {reply['code']}" if reply.name == "Error" else ""
    must(f"{reply.name}{code}", "Deleted", "the answer to a Delete")


def _must_stay(client, code, why, topic="orders", **how):
    reply = client.ask("Delete", topic=topic, **how)
    must(reply.name, "Error", f"the answer to a Delete {why}")
    must(reply["code"], code, f"the error's code, for a Delete {why}")


@EXERCISE.asks(
    "a topic that is deleted is gone",
    hint="Delete has the type 10 and two fields, its name and an epoch; the answer's body is empty.",
)
def gone(program):
    with _clients(program) as (client,):
        _made(client)
        client.publish("orders", b"two apples", b"a pear")
        _must_go(client)
        must(_made(client)["created"], 1, "created, when the topic is made again")
        must(client.publish("orders", b"two apples")["first_offset"], 0, "the first offset in the new one")


@EXERCISE.asks(
    "its readers are told at once",
    hint="A reader has its topic and would read on for ever. Who tells it, and which of its events comes first now?",
)
def told(program):
    with _clients(program, 2) as (client, reader):
        _made(client)
        subscription = reader.subscribe("orders", credit=1)
        client.publish("orders", b"two apples", b"a pear")
        must(reader.frame().name, "Messages", "the first event of a reader with credit 1")
        _must_go(client)
        ended = reader.frame()
        must(ended.name, "SubscriptionEnded", "the event after the Delete, though nothing has been committed")
        must((ended.id, ended["code"], ended["next"]), (subscription, DELETED, 1), "its subscription, code and next")
        _made(client)
        must(client.publish("orders", b"two apples")["subscribers"], 0, "subscribers of the new topic of that name")


@EXERCISE.asks(
    "what isn't there, or isn't the one that is meant, is refused",
    hint="There are two errors, NO_SUCH_TOPIC and EPOCH_CHANGED. An epoch of 0 means any.",
)
def refused(program):
    with _clients(program) as (client,):
        _must_stay(client, NO_SUCH_TOPIC, "of a topic that there isn't")
        epoch = _made(client)["epoch"]
        client.publish("orders", b"two apples")
        _must_stay(client, EPOCH_CHANGED, "with another epoch", epoch=epoch + 1)
        must(client.publish("orders", b"a pear")["first_offset"], 1, "the next offset, after that was refused")
        _must_go(client, epoch=epoch)


@EXERCISE.asks(
    "with IF_EMPTY only a topic that nobody would miss goes",
    hint="IF_EMPTY is the flag 1. A topic isn't empty if it has a message, nor if somebody is subscribed to it.",
)
def if_empty(program):
    with _clients(program) as (client,):
        _made(client)
        _must_go(client, flags=IF_EMPTY)
        _made(client)
        client.publish("orders", b"two apples")
        _must_stay(client, NOT_EMPTY, "with IF_EMPTY of a topic with a message", flags=IF_EMPTY)
        client.subscribe("news")
        _must_stay(client, NOT_EMPTY, "with IF_EMPTY of a topic with a reader", topic="news", flags=IF_EMPTY)
        _must_go(client)
        _must_go(client, topic="news")


@EXERCISE.asks(
    "no epoch comes twice",
    hint="Two topics may be made within a microsecond. Keep the greatest epoch that has gone, and begin after it.",
)
def epochs(program):
    with _clients(program) as (client,):
        before = 0
        for _ in range(LIVES):
            epoch = _made(client)["epoch"]
            must(epoch > before, True, "whether a topic's epoch is greater than that of the one before it")
            before = epoch
            _must_go(client)
