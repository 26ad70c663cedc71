"""Questions for exercise 18.2."""

from contextlib import contextmanager

from zaichik.learn.exercise import Exercise, must
from zaichik.learn.lab import running
from zaichik.learn.layouts import MAX_BYTES, TABLE, TABLES

EXERCISE = Exercise(
    "A quarter for the dead",
    hints=(
        (
            "All of it is in tables.py. Tombstones already have a place of their own, where they're kept in order. "
            "Keep the sum of their bytes as well, where they come and where they go, and there's a second reason for "
            "the oldest to go."
        ),
        (
            "The loop in `_expire_tombstones` ends when the oldest one is still young. Let it go on while four times "
            "their bytes are more than `max_bytes`. The newest message of the topic is left alone for either reason. "
            "And call it once more when a batch has been stored."
        ),
    ),
    program="broker.py",
)
MEANT = 1  # a flag of Publish
ROOM, KEY = 1000, 42  # bytes; with 8 each, five keys fit into a quarter


@contextmanager
def _table(program, room=ROOM):
    """A client, and a table with so much room, of a running broker."""
    with running(program) as broker:
        client = broker.client(features=TABLES)
        try:
            client.ask("CreateTopic", topic="prices", settings={TABLE: 1, MAX_BYTES: room})
            yield client
        finally:
            client.socket.close()


def _publish(client, *batch):
    client.ask("Publish", topic="prices", batch=list(batch), flags=MEANT)


def _graves(count, size=KEY, first=0):
    return [(bytes([first + number]) * size, b"") for number in range(count)]


def _offsets(client, end):
    """The offsets of all messages that a late reader gets, up to a last one."""
    client.subscribe("prices", until=end)
    found = []
    while (frame := client.frame()).name != "SubscriptionEnded":
        found += [message.offset for message in frame.messages]
    return found


@EXERCISE.asks("tombstones that fit into a quarter stay", hint="Up to a quarter, including it. A value isn't counted.")
def fitting(program):
    with _table(program) as client:
        _publish(client, (b"apple", b"30"), *_graves(5), (b"pear", b"45"))
        must(_offsets(client, 7), [*range(7)], "offsets after an apple, 5 tombstones of 50 bytes and a pear")


@EXERCISE.asks("beyond it, the oldest go early", hint="They go although their time isn't over. Which is the oldest?")
def early(program):
    with _table(program) as client:
        _publish(client, (b"apple", b"30"), *_graves(5))
        _publish(client, *_graves(2, first=5))
        must(_offsets(client, 8), [0, 3, 4, 5, 6, 7], "offsets after an apple, and 7 tombstones of which 5 have room")


@EXERCISE.asks(
    "a tombstone counts with its key and 8 bytes",
    hint="What a message takes doesn't end with its key: see EACH. Short keys would be many.",
)
def counted(program):
    with _table(program) as client:
        _publish(client, *_graves(28, size=1))
        must(_offsets(client, 28)[0], 1, "the first offset after 28 tombstones of 9 bytes; 250 bytes are a quarter")


@EXERCISE.asks("one that is superseded makes room", hint="Tombstones go in two ways. Take their bytes off in both.")
def superseded(program):
    with _table(program) as client:
        for number in range(6):
            _publish(client, *_graves(1, first=number))
            _publish(client, (bytes([number]) * KEY, b"x"))
        _publish(client, (b"free", b""), (b"", b"x"))
        must(12 in _offsets(client, 14), True, "whether a tombstone is there, if six before it have been superseded")


@EXERCISE.asks("the newest message stays", hint="However large it is. It goes as soon as it isn't the newest any more.")
def newest(program):
    with _table(program, room=2 * KEY) as client:
        _publish(client, *_graves(1))
        must(_offsets(client, 1), [0], "offsets after a tombstone of 50 bytes, in a table with room for 84")
        _publish(client, (b"", b"x"))
        must(_offsets(client, 2), [1], "offsets after another message")


@EXERCISE.asks(
    "a reader that had not got there is told",
    hint="For a reader it makes no difference why a tombstone has gone. What does `deleted_below` say now?",
)
def told(program):
    with _table(program) as client:
        _publish(client, (b"apple", b"30"))
        subscription = client.subscribe("prices", credit=1)
        must(client.frame().name, "Messages", "the first event of a reader with credit 1")
        _publish(client, *_graves(6))
        client.ask("Commit", subscription=subscription, next=1)
        frame = client.frame()
        must(frame.name, "DeletionsMissed", "its next event, when it has missed a tombstone that went early")
        must(2 <= frame["below"] <= 7, True, "whether below is above the tombstone at 1, and at most the next offset")
