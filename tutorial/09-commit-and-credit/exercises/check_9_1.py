"""Questions for exercise 9.1."""

from zaichik.learn.exercise import Exercise, must
from zaichik.learn.lab import running

EXERCISE = Exercise(
    "Several in one frame",
    hints=(
        (
            "Let `next_event` go on from `place` while the time is the first message's (so it's the same batch), while "
            "there's credit left, and while the frame has fewer than 100 messages. Each message goes into `_in_flight` "
            "as before; only the frame is built once, at the end."
        ),
        (
            "A frame's bytes are in flight until its last message is settled. So its messages can go into `_in_flight` "
            "with a size of 0 each, and the last one, once you know which it is, with the size of all. `_bytes` grows "
            "with each message, so that `_is_free` and the test before the append stay what they are."
        ),
    ),
    program="broker.py",
)


def _count(reader):
    frame = reader.frame()
    must(frame.name, "Messages", "the next frame")
    return len(frame.messages)


def _sync(*clients):
    """What the broker had to send before now has come: of two Pings, the second is answered after all of it."""
    for client in clients:
        client.ask("Ping")
        client.ask("Ping")


@EXERCISE.asks(
    "a frame has as many messages as it may: a hundred",
    hint="Where does `next_event` stop after one message? What else has to be true for the next one to come along?",
)
def several(program):
    with running(program) as broker:
        reader, publisher = broker.client(), broker.client()
        reader.subscribe("news", credit=1000)
        publisher.publish("news", *[b"%d" % number for number in range(250)])
        first = reader.frame()
        must(len(first.messages), 100, "messages in the first frame, of a batch of 250")
        must((first.messages[0].payload, first.messages[99].payload), (b"0", b"99"), "the first and last of them")
        second = reader.frame()
        must((second["base"], len(second.messages)), (100, 100), "offset and number of messages of the second frame")
        must(_count(reader), 50, "messages in the third frame")


@EXERCISE.asks(
    "a frame's messages are of one batch",
    hint="A frame has one `accepted_us`, for all of its messages. Stop where the row says another time.",
)
def of_one_batch(program):
    with running(program) as broker:
        reader, publisher = broker.client(), broker.client()
        subscription = reader.subscribe("news", credit=5)
        publisher.publish("news", *[b"waits for a commit"] * 5)
        must(_count(reader), 5, "messages in the first frame")
        publisher.publish("news", b"a", b"b", b"c")
        publisher.publish("news", b"d", b"e")
        reader.ask("Commit", subscription=subscription, next=5)
        must(_count(reader), 3, "messages in the next frame, after batches of 3 and 2")
        must(_count(reader), 2, "messages in the one after it")


@EXERCISE.asks(
    "no more messages than credit allows",
    hint="Each message in a frame takes credit. Look at it again before each of them, not before the first only.",
)
def credit_in_messages(program):
    with running(program) as broker:
        reader, publisher = broker.client(), broker.client()
        subscription = reader.subscribe("news", credit=4)
        publisher.publish("news", *[b"%d" % number for number in range(10)])
        _sync(publisher, reader)
        must(_count(reader), 4, "messages in the first frame, with a credit of 4")
        reader.ask("Commit", subscription=subscription, next=1)
        must(_count(reader), 1, "messages in the next one, when one is settled")
        reader.ask("Commit", subscription=subscription, next=5)
        must(_count(reader), 4, "messages in the next one, when all are settled")


@EXERCISE.asks(
    "no more bytes than credit allows, until the frame's last message is settled",
    hint="Before each message: would it be too many bytes? And when is it that a commit gives bytes back?",
)
def credit_in_bytes(program):
    with running(program) as broker:
        reader, publisher = broker.client(), broker.client()
        subscription = reader.subscribe("news", credit_bytes=100)
        publisher.publish("news", bytes(500), *[bytes(40)] * 5)
        must(_count(reader), 1, "messages in the first frame: it is larger than the credit, and goes alone")
        reader.ask("Commit", subscription=subscription, next=1)
        must(_count(reader), 2, "messages of 40 bytes in the next one, with a credit of 100 bytes")
        reader.ask("Commit", subscription=subscription, next=2)  # one of the two: no bytes come back
        _sync(publisher, reader)
        reader.ask("Commit", subscription=subscription, next=3)
        asked = "messages in the next one, after commits of the first and then of the second of these two"
        must(_count(reader), 2, asked)
