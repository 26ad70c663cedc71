"""Questions for exercise 0.3."""

from zaichik.learn.caller import Silence
from zaichik.learn.exercise import Exercise, Wrong, must
from zaichik.learn.lab import running

EXERCISE = Exercise(
    "A reader that has left",
    hints=(
        (
            "Look at the loop in `Client.publish`: `client.write` raises an OSError for a reader that has left. Catch "
            "it there, around this one line, and go on with the next reader."
        ),
        (
            "To go on isn't all: a reader that has left is still in `readers[topic]`. Take it out, and don't change a "
            "list while a loop walks along it: let the loop walk along a copy."
        ),
    ),
    program="apples.py",
)


@EXERCISE.asks(
    "the publish after a reader has left is answered",
    hint="Which line of `publish` raises when the reader has gone? What happens to Bob's conversation then?",
)
def answered(program):
    with running(program) as broker:
        gone, publisher = broker.client(), broker.client()
        gone.subscribe("orders")
        gone.socket.close()
        for number in range(20):  # the first one may still be taken by the system
            try:
                reply = publisher.publish("orders", b"three pears")
            except Silence as silence:
                raise Wrong(f"publish {number + 1} after a reader had left: {silence}") from None
            must(reply["first_offset"], number, f"publish {number + 1}: first_offset")


@EXERCISE.asks("those who stayed get everything", hint="Go on with the next reader, and not with the next publish.")
def stayed(program):
    with running(program) as broker:
        gone, stays, publisher = broker.client(), broker.client(), broker.client()
        gone.subscribe("orders")
        stays.subscribe("orders")
        gone.socket.close()
        for number in range(20):
            publisher.publish("orders", b"%d pears" % number)
            frame = stays.frame()
            must(frame.messages[0].payload, b"%d pears" % number, "the message that the other reader got")


@EXERCISE.asks(
    "a reader that has left isn't counted any more",
    hint="`Published` tells how many readers the topic has. Is the one that left still in the list?",
)
def counted(program):
    with running(program) as broker:
        gone, publisher = broker.client(), broker.client()
        gone.subscribe("orders")
        gone.socket.close()
        for _ in range(20):
            reply = publisher.publish("orders", b"three pears")
        must(reply["subscribers"], 0, "subscribers, after the only reader had left")
