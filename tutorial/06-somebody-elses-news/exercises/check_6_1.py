"""Questions for exercise 6.1."""

import socket

from zaichik.learn.caller import Silence
from zaichik.learn.exercise import Exercise, Wrong, must
from zaichik.learn.lab import running

EXERCISE = Exercise(
    "No queue without a bound",
    hints=(
        (
            "A memory object stream takes its bound as an argument, and send_nowait of a full one raises WouldBlock. "
            "It's raised in the publisher's task, though. The reader's task group is what has to end."
        ),
        (
            "Let a small class hold a client's queue and its task group's cancel scope, and hand that to Conversation "
            "as its `client`. It has one method, which puts a frame into the queue, or cancels the scope if there's no "
            "room. Whatever went straight into the queue before now goes through that method."
        ),
    ),
    program="broker.py",
)
PAYLOAD = bytes(16_384)  # a few hundred of these, and the system's buffers are full
SURELY_TOO_MANY, FEWER = 3000, 900


def _slow_reader(broker):
    reader = broker.client()
    reader.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    reader.subscribe("news")
    return reader


def _published(publisher, number):
    try:
        return publisher.publish("news", PAYLOAD)["subscribers"]
    except (Silence, ConnectionError) as error:
        raise Wrong(f"publish {number}, while a reader doesn't read: {error}") from None


@EXERCISE.asks(
    "a reader for whom more than 1,000 frames wait is disconnected",
    hint="How many frames does the queue of a client take? What happens to the client when there's no more room?",
)
def disconnected(program):
    with running(program) as broker:
        slow, publisher = _slow_reader(broker), broker.client()
        if not any(_published(publisher, number) == 0 for number in range(1, SURELY_TOO_MANY + 1)):
            raise Wrong(f"after {SURELY_TOO_MANY:,} publishes, a reader that reads nothing is still a reader")
        try:
            while slow.socket.recv(1 << 20):
                pass
        except TimeoutError:
            raise Wrong(
                "a reader that had read nothing is no reader any more, and its connection is still there"
            ) from None
        except ConnectionError:
            pass  # an end is an end


@EXERCISE.asks(
    "the publisher and other readers go on",
    hint="The exception is raised in the publisher's task. It mustn't end the publisher's conversation.",
)
def others(program):
    with running(program) as broker:
        _slow, reader, publisher = _slow_reader(broker), broker.client(), broker.client()
        reader.subscribe("news")
        for number in range(SURELY_TOO_MANY):
            readers = _published(publisher, number + 1)
            must(reader.frame()["base"], number, "the offset that a reader that keeps up gets next")
            if readers == 1:
                return
        raise Wrong(f"after {SURELY_TOO_MANY:,} publishes there are still {readers} readers")


@EXERCISE.asks(
    "a reader for whom fewer wait gets them all",
    hint="To be slow for a while is no offence: up to 1,000 frames wait until the client reads again.",
)
def fewer(program):
    with running(program) as broker:
        slow, publisher = _slow_reader(broker), broker.client()
        for number in range(FEWER):
            must(_published(publisher, number + 1), 1, f"subscribers, after {number + 1} messages that it didn't read")
        for number in range(FEWER):
            try:
                must(slow.frame()["base"], number, "the offset of the next message, once the reader reads")
            except (Silence, ConnectionError) as error:
                raise Wrong(f"message {number} of {FEWER}, once the reader reads: {error}") from None
