"""A program that ends before its blocks do, and one that forks."""

import subprocess
import sys
import textwrap

import pytest
from embedded import embedded_broker

pytestmark = pytest.mark.unmeasured

GUARD = 60  # seconds; a program that hangs fails the test


@pytest.fixture
def broker():
    with embedded_broker() as broker:
        broker.create("t")
        yield broker


def next_offset(broker):
    (state,) = broker.topics("t")
    return state["next_offset"]


def run(broker, code):
    """Run a program until it ends; returns its exit code, and what it has printed."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(broker.port)],
        capture_output=True,
        text=True,
        timeout=GUARD,
        check=False,
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


READING = """
    import sys
    from contextlib import ExitStack
    from zaichik import blocking

    def messages(port):
        with (
            blocking.connect(port=port) as client,
            client.subscribe("t", name="n") as subscription,
            client.producer("t") as producer,
        ):
            producer.send(b"0")
            for message in subscription:
                producer.send(b"1")
                yield message

    stream = messages(int(sys.argv[1]))
    print(next(stream).payload)
"""


def the_position_is_kept_and_all_is_stored(broker):
    (state,) = broker.subscriptions()
    assert state["name"] == "t#away.n.1", "it was unsubscribed"
    assert state["committed"] == 0, "the message in hand is not settled"
    assert next_offset(broker) == 2, "the producer was flushed"


def test_a_program_ends_with_a_generator_that_was_not_exhausted(broker):
    code, printed, errors = run(broker, READING)
    assert (code, printed, errors) == (0, ["b'0'"], "")
    the_position_is_kept_and_all_is_stored(broker)


def test_a_program_ends_after_an_exception_that_nobody_caught(broker):
    code, _, errors = run(broker, READING + "\n    raise ZeroDivisionError")
    assert code == 1
    assert errors.splitlines()[-1] == "ZeroDivisionError"
    the_position_is_kept_and_all_is_stored(broker)


OPEN = """
    import atexit, sys, threading
    from contextlib import ExitStack
    from zaichik import blocking

    stack = ExitStack()
    client = stack.enter_context(blocking.connect(port=int(sys.argv[1])))
    subscription = stack.enter_context(client.subscribe("t"))
"""


@pytest.mark.parametrize(
    "more",
    [
        "",
        "atexit.register(stack.close)",
        "atexit.register(client.publish, 't', b'last')",
        "threading.Thread(target=next, args=(iter(subscription), None), daemon=True).start()",
    ],
)
def test_a_program_ends_with_an_open_client(broker, more):
    code, _, errors = run(broker, OPEN + f"\n    {more}")
    assert code == 0, errors
    assert "publish" not in more or next_offset(broker) == 1
    assert broker.subscriptions() == []


FORKING = """
    import asyncio, os, sys
    import zaichik
    from zaichik import blocking

    def inherited(call):
        try:
            print(call())
        except RuntimeError as error:
            print(error)

    def in_child(*calls):
        child = os.fork()
        if not child:
            for call in calls:
                inherited(call)
            sys.exit(7)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)

    port = int(sys.argv[1])
"""

ADVICE = (
    "this client belongs to the process that this one was forked from, and only works there; "
    "connect again in this process"
)


def test_a_forked_process_is_told_at_once_and_the_parent_goes_on(broker):
    code, printed, errors = run(
        broker,
        FORKING
        + """
    with (
        blocking.connect(port=port) as client,
        client.producer("t") as producer,
        client.subscribe("t", start=0) as subscription,
    ):
        client.publish_batch("t", [(None, b"0"), (None, b"1"), (None, b"2")])
        messages = iter(subscription)
        assert next(messages).payload == b"0"
        producer._is_due = True
        in_child(
            lambda: client.publish("t", b"child"),
            client.ping,
            lambda: next(messages).payload,
            subscription.fetch,
            lambda: producer.send(b"child"),
            producer.flush,
            lambda: client.subscribe("t").__enter__(),
        )
        producer._is_due = False
        print(next(messages).payload, next(messages).payload)
        client.publish("t", b"parent")
        print(next(messages).payload)
    """,
    )
    assert code == 0, errors
    assert printed == [*[ADVICE] * 7, "7", "b'1' b'2'", "b'parent'"]
    assert next_offset(broker) == 4


def test_a_forked_process_is_not_given_what_has_arrived_of_a_pattern(broker):
    """Not even by a loop over the frame in hand: its parent goes on with it."""
    code, printed, errors = run(
        broker,
        FORKING
        + """
    with blocking.connect(port=port) as client, client.subscribe_pattern("**") as messages:
        client.publish_batch("t", [(None, b"0"), (None, b"1"), (None, b"2")])
        loop = iter(messages)
        print(next(loop).payload, flush=True)
        in_child(lambda: next(loop).payload)
        print(next(loop).payload, next(loop).payload)
    """,
    )
    assert (code, printed) == (0, ["b'0'", ADVICE, "7", "b'1' b'2'"]), errors


def test_a_forked_process_leaves_blocks_and_connects_again(broker):
    code, printed, errors = run(
        broker,
        FORKING
        + """
    with blocking.connect(port=port) as client, client.producer("t"), client.subscribe("t"):
        client.publish("t", b"parent")
        child = os.fork()
    if not child:
        with blocking.connect(port=port) as client:
            print(client.publish("t", b"child").offset)
        sys.exit(7)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status))
    """,
    )
    assert (code, printed) == (0, ["1", "7"]), errors


def test_a_forked_process_is_told_by_an_asynchronous_client_as_well(broker):
    """Its bytes would come between those of the parent."""
    code, printed, errors = run(
        broker,
        FORKING
        + """
    async def main():
        async with zaichik.connect(port=port) as client, client.subscribe("t") as subscription:
            await client.publish("t", b"0")
            await client.ping()
            child = os.fork()
            if not child:
                in_a_loop = lambda call: lambda: asyncio.new_event_loop().run_until_complete(call())
                asyncio._set_running_loop(None)
                inherited(in_a_loop(lambda: client.publish("t", b"child")))
                inherited(in_a_loop(client.ping))
                inherited(in_a_loop(subscription.__anext__))
                sys.stdout.flush()
                os._exit(7)
            _, status = os.waitpid(child, 0)
            print(os.waitstatus_to_exitcode(status))
            print((await anext(subscription)).payload)

    asyncio.run(main())
    """,
    )
    assert code == 0, errors
    assert printed == [*[ADVICE] * 3, "7", "b'0'"]
    assert next_offset(broker) == 1
