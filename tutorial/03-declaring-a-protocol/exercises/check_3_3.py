"""Questions for exercise 3.3."""

from zaichik.learn import wire
from zaichik.learn.exercise import Exercise, Wrong, must
from zaichik.learn.lab import running

EXERCISE = Exercise(
    "An error that helps",
    hints=(
        (
            "The message is the last argument of `require`, in `Conversation._judge`. The number is in the header, "
            "which is at hand there."
        ),
        (
            "In an f-string, what follows a colon says how a number is written: x is hexadecimal, #x puts 0x before "
            "it, and #04x fills it up to four characters, so that 7 becomes 0x07."
        ),
    ),
    program="broker.py",
)
UNSUPPORTED = 65


def _error(client, kind):
    client.socket.sendall(wire.raw_frame(kind, b"", frame_id=9))
    frame = client.frame()
    must((frame.name, frame.id), ("Error", 9), f"the answer to a request of type {kind:#04x}, id 9")
    return frame


@EXERCISE.asks("the message names the type", hint="Which number is it that your broker doesn't know? Say it as 0x63.")
def names(program):
    with running(program) as broker:
        client = broker.client()
        for kind in (0x63, 0x2A):
            message, number = str(_error(client, kind)["message"]), f"{kind:#04x}"
            if number not in message.lower():
                raise Wrong(f"the message for type {number}: expected one that contains {number}, came {message!r}")


@EXERCISE.asks(
    "it is the same error as before",
    hint="A program reads `code` and `field`, and relies on them. The message is for people: that is what may change.",
)
def the_same(program):
    with running(program) as broker:
        error = _error(broker.client(), 0x63)
        came = {name: error[name] for name in ("code", "request_type", "field")}
        came["field"] = str(came["field"])
        must(came, {"code": UNSUPPORTED, "request_type": 0x63, "field": "type"}, "the error's other fields")


@EXERCISE.asks("the conversation goes on", hint="UNSUPPORTED is harmless: the next request gets its answer.")
def goes_on(program):
    with running(program) as broker:
        client = broker.client()
        _error(client, 0x63)
        must(client.ask("Ping", value=7)["value"], 7, "a Ping after it")
