"""What every broker of the protocol must do, checked from outside in raw bytes.

Each check follows from protocol/README.md alone, and runs against the broker of this project and
against tutorial/tiny_broker.py. Time is a clock that the test moves; nothing here waits for real
time to pass.
"""

import functools
import importlib.util
import inspect
import json
import struct
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketAttribute
from raw_client import (
    ADVANCE_CLOCK,
    BATCH_TOO_LARGE,
    BY_KEY,
    CAPACITY,
    CLOCK_ADVANCED,
    CLOSE,
    CLOSED,
    COMMIT,
    CREATE,
    DEAD,
    DELAYED,
    DELETE,
    DELETED,
    DELETIONS_MISSED,
    DESCRIBE,
    DESCRIBED,
    DISCONNECT,
    DISCONNECTED,
    DONE,
    EARLIEST,
    ENDED,
    EPOCH_CHANGED,
    ERROR,
    EXPLAIN,
    EXTEND,
    FOREVER,
    FORGET,
    FORGET_DEAD,
    FORGET_NAME,
    FRAME_TOO_LARGE,
    GO_AWAY,
    HELLO,
    HELLO_REQUIRED,
    IF_EMPTY,
    IN_TABLE,
    INVALID_FIELD,
    LAGGED,
    LATEST,
    MALFORMED,
    MAX_BYTES,
    MAX_KEYS,
    MESSAGE_TOO_LARGE,
    MESSAGES,
    NO_SUCH_NAME,
    NO_SUCH_SUBSCRIPTION,
    NO_SUCH_TOPIC,
    NOT_EMPTY,
    NOT_IN_FLIGHT,
    OFFSET,
    OFFSET_AHEAD,
    OVERFLOW,
    OWNED,
    OWNER,
    PING,
    PONG,
    PRODUCER_UNKNOWN,
    PUBLISH,
    PUBLISHED,
    REDELIVERED,
    REJECT,
    RELEASE,
    RETRY,
    REVIVE,
    SELECTED,
    SETTLE,
    SHARED,
    SHARED_NAMES,
    SUBSCRIBE,
    SUBSCRIBED,
    TABLE,
    TABLE_FULL,
    TABLES,
    TAKEN_OVER,
    TICKETS,
    TIME,
    TOMBSTONES,
    TOMBSTONES_MS,
    TOPIC_EXISTS,
    TOPIC_FULL,
    TTL,
    UNSUBSCRIBE,
    UNSUPPORTED,
    UNSUPPORTED_VERSION,
    WELCOME,
    WINDOW,
    RawClient,
    advance_clock,
    batch,
    check_error,
    commit,
    create,
    dead,
    delete,
    describe,
    disconnect,
    frame,
    hello,
    owned,
    ping,
    publish,
    settle,
    shared,
    string,
    subscribe,
    unsubscribe,
)

pytestmark = [
    pytest.mark.anyio,
    # what the broker does has tests of its own; this one knows the wire text alone
    pytest.mark.unmeasured,
]

ROOT = Path(__file__).parents[1]
START_US = 1_385_596_800_000_000  # when the clock of each broker begins
TOPICS = "$topics"
HUNDRED_YEARS_MS = 3_155_760_000_000
KEEP = {TTL: FOREVER, WINDOW: 0, CAPACITY: 10_000, MAX_BYTES: 1 << 26, MAX_KEYS: 1000}


# -----------------------------------------------------------------------------------------------
# brokers


class Running:
    """A broker that runs, and its clock; `dial` opens a stream to it, if not a plain one."""

    def __init__(self, port, *, advance, sweep, dial=None):
        self.port = port
        self.dial = dial
        self.now_us = START_US
        self._advance = advance
        self._sweep = sweep

    def advance(self, seconds):
        """Move the broker's clock."""
        self.now_us += round(seconds * 1_000_000)
        if self._advance:
            self._advance(seconds)

    async def sweep(self):
        """Do now what the broker does once a second."""
        result = self._sweep(self.now_us)
        if inspect.isawaitable(result):
            await result


@functools.cache
def tiny_broker():
    """The module tutorial/tiny_broker.py."""
    spec = importlib.util.spec_from_file_location(
        "tiny_broker", ROOT / "tutorial" / "tiny_broker.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@asynccontextmanager
async def run_tiny():
    tiny = tiny_broker()
    inner = tiny.Broker()
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0) as listener,
        anyio.create_task_group() as tasks,
    ):
        running = Running(
            listener.extra(SocketAttribute.local_port), advance=None, sweep=inner.sweep
        )
        tasks.start_soon(lambda: tiny.serve(listener, now_us=lambda: running.now_us, broker=inner))
        yield running
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def run_zaichik():
    zaichik = importlib.import_module("zaichik")
    clock = zaichik.ManualClock(start_us=START_US)
    async with zaichik.running_broker(clock=clock) as inner:
        yield Running(inner.port, advance=clock.advance, sweep=lambda _: inner.sweep())


@asynccontextmanager
async def run_zaichik_over_tls():
    """Whoever connects shows a certificate, which says that it is a user with every right; so a
    Hello need not.
    """
    zaichik, over_tls = importlib.import_module("zaichik"), importlib.import_module("over_tls")
    clock = zaichik.ManualClock(start_us=START_US)
    async with over_tls.running_broker(clock) as inner:
        yield Running(
            inner.port, advance=clock.advance, sweep=lambda _: inner.sweep(), dial=over_tls.dial
        )


# What a check asks of limits, tiny_broker does not keep: it is short instead, and its docstring
# says so.
limits = pytest.mark.limits
# What a broker that knows no users makes of the login in a Hello.
without_users = pytest.mark.without_users


@pytest.fixture(
    params=[run_tiny, run_zaichik, run_zaichik_over_tls], ids=["tiny", "zaichik", "TLS"]
)
async def broker(request):
    if request.param is run_tiny and request.node.get_closest_marker("limits"):
        pytest.skip("tiny_broker leaves limits out")
    if request.param is run_zaichik_over_tls and request.node.get_closest_marker("without_users"):
        pytest.skip("this broker knows users")
    async with request.param() as running:
        yield running


@pytest.fixture
async def dial(broker):
    """Open a connection without a Hello; all are closed when the test is over."""
    async with AsyncExitStack() as stack:

        async def dial():
            client = await RawClient.connect(broker.port, broker.dial)
            stack.push_async_callback(client.aclose)
            return client

        yield dial


@pytest.fixture
async def connect(dial):
    """Open a connection that has said Hello."""

    async def connect(**fields):
        client = await dial()
        await client.hello(**fields)
        return client

    return connect


@pytest.fixture
async def client(connect):
    return await connect()


# ---------------------------------------------------------------------------------------------
# handshake


async def test_welcome_tells_the_brokers_limits(connect):
    """Two connections learn the same limits and the same boot number, which is not 0."""
    first, second = (await connect()).welcome, (await connect()).welcome
    assert first.fields == second.fields
    assert (first.version, first.features) == (1, 0)
    assert first.boot != 0
    assert min(first.max_frame, first.max_batch, first.max_message, first.max_credit) >= 1
    assert first.max_frame >= 4096


@pytest.mark.parametrize(("oldest", "newest"), [(1, 1), (0, 1), (1, 3), (0, 65_535)])
async def test_broker_picks_the_newest_version_both_know(connect, oldest, newest):
    assert (await connect(oldest=oldest, newest=newest)).welcome.version == 1


async def test_features_are_those_both_sides_set(connect):
    """What a client offers it gets or not, and nothing besides."""
    assert (await connect(features=1)).welcome.features in {0, 1}
    assert (await connect(features=2)).welcome.features in {0, 2}
    assert (await connect(features=4)).welcome.features in {0, 4}
    assert (await connect(features=8)).welcome.features in {0, 8}
    assert (await connect(features=16)).welcome.features in {0, 16}
    assert (await connect(features=2**64 - 1)).welcome.features in range(32)


async def test_silence_without_heartbeat_is_no_reason_to_close(client, broker):
    broker.advance(100 * 86_400)
    await client.ping()


@without_users
@pytest.mark.parametrize("auth", [0, 1, 2])
async def test_broker_without_users_accepts_every_auth(connect, auth):
    """It does not look at `user` and `secret`."""
    assert (await connect(auth=auth, user="zoë", secret="x" * 50)).welcome.version == 1


@pytest.mark.parametrize(
    ("code", "field", "body"),
    [
        pytest.param(MALFORMED, None, hello(magic=b"zaik"), id="magic"),
        pytest.param(UNSUPPORTED_VERSION, None, hello(oldest=2, newest=9), id="too new"),
        pytest.param(UNSUPPORTED_VERSION, None, hello(oldest=0, newest=0), id="too old"),
        pytest.param(INVALID_FIELD, "auth", hello(auth=3), id="auth", marks=without_users),
        pytest.param(INVALID_FIELD, "client", hello(client=b"\xff"), id="client"),
        pytest.param(MALFORMED, None, hello()[:-1], id="truncated"),
        pytest.param(MALFORMED, None, hello() + b"\0", id="trailing"),
    ],
)
async def test_any_error_in_answer_to_hello_ends_the_connection(dial, code, field, body):
    data = frame(HELLO, 7, body) + frame(PING, 8, ping())
    await (await dial()).refused_for_good(code, data, field=field, request_id=7, request_type=HELLO)


async def test_hello_with_undefined_flags_ends_the_connection(dial):
    data = frame(HELLO, 7, hello(), flags=1)
    await (await dial()).refused_for_good(
        UNSUPPORTED, data, field="flags", request_id=7, request_type=HELLO
    )


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (PING, ping()),
        (CREATE, create("t")),
        (CLOSE, b""),
        (0x7E, b""),
        (WELCOME, b""),
        (MESSAGES, b""),
    ],
)
async def test_first_frame_must_be_hello(dial, kind, body):
    data = frame(kind, 7, body) + frame(HELLO, 8, hello())
    await (await dial()).refused_for_good(HELLO_REQUIRED, data, request_id=7, request_type=kind)


async def test_length_before_hello_may_be_4096(dial):
    client = await dial()
    body = hello(client="c" * (4096 - 8 - len(hello(client=""))))
    data = frame(HELLO, 1, body)
    assert data[:4] == struct.pack("<I", 4096)
    await client.send(data)
    assert (await client.reply(1)).kind == WELCOME


async def test_length_before_hello_may_not_be_4097(dial):
    """Four bytes are enough to be refused: the body is not awaited."""
    await (await dial()).refused_for_good(FRAME_TOO_LARGE, struct.pack("<I", 4097))


async def test_requests_need_not_wait_for_welcome(dial):
    """Hello and what follows, even a frame of more than 4,096 bytes, may come in one piece."""
    client = await dial()
    await client.send(
        frame(HELLO, 1, hello()),
        frame(PUBLISH, 2, publish("t", [b"x" * 5000])),
        frame(PING, 3, ping(5)),
    )
    kinds = [(await client.reply(i)).kind for i in (1, 2, 3)]
    assert kinds == [WELCOME, PUBLISHED, PONG]


async def test_second_hello_is_unsupported_and_harmless(client):
    await client.refused(UNSUPPORTED, HELLO, hello())
    await client.ping()


# ------------------------------------------------------------------------------------------------
# frames


async def test_frame_may_be_split_at_every_byte(client, connect):
    """Half a frame is no error, wherever the cut.

    Between the halves another connection makes a round trip, so that the broker reads them one by
    one.
    """
    other = await connect()
    data = frame(PUBLISH, 0xABCDEF, publish("split", [(b"key", b"payload"), b"another"]))
    for expected, cut in enumerate(range(1, len(data))):
        await client.send(data[:cut])
        await other.ping()
        await client.send(data[cut:])
        assert (await client.reply(0xABCDEF)).first_offset == 2 * expected


async def test_frames_may_come_byte_by_byte(dial, connect):
    """A whole conversation, from Hello to Close, in pieces of one byte."""
    client, other = await dial(), await connect()
    requests = [
        frame(HELLO, 1, hello()),
        frame(SUBSCRIBE, 2, subscribe("t")),
        frame(PUBLISH, 3, publish("t", [b"x"])),
        frame(CLOSE, 4),
    ]
    for byte in b"".join(requests):
        await client.send(bytes([byte]))
        await other.ping()
    replies = [await client.reply(i) for i in (1, 2, 3, 4)]
    assert [reply.kind for reply in replies] == [WELCOME, SUBSCRIBED, PUBLISHED, CLOSED]
    assert await client.messages(2, 0) == [b"x"]
    await client.ends()


async def test_frames_may_be_glued_together(client):
    """Three frames and a half in one piece, then the other half with three more."""
    middle = frame(PUBLISH, 40, publish("t", [b"middle"]))
    around = [frame(PING, i, ping(i)) for i in (10, 20, 30, 50, 60, 70)]
    await client.send(*around[:3], middle[:20])
    assert [(await client.reply(i)).value for i in (10, 20, 30)] == [10, 20, 30]
    await client.send(middle[20:], *around[3:])
    assert (await client.reply(40)).kind == PUBLISHED
    assert [(await client.reply(i)).value for i in (50, 60, 70)] == [50, 60, 70]


@pytest.mark.parametrize("length", [0, 7])
async def test_length_below_8_is_malformed_at_once(client, length):
    await client.refused_for_good(
        MALFORMED, struct.pack("<I", length), request_id=0, request_type=0
    )


@pytest.mark.parametrize("excess", [1, None])
async def test_length_above_max_frame_is_too_large_at_once(client, excess):
    """Four bytes are enough to be refused: the body is not awaited."""
    length = client.welcome.max_frame + excess if excess else 2**32 - 1
    await client.refused_for_good(
        FRAME_TOO_LARGE, struct.pack("<I", length), request_id=0, request_type=0
    )


async def test_length_may_be_max_frame(client):
    """Even a frame of an unknown type is read to its end, and the connection goes on behind it."""
    await client.refused(UNSUPPORTED, 0x7E, bytes(client.welcome.max_frame - 8))
    await client.ping()


@pytest.mark.parametrize("zero", [1, 0x8000])
async def test_zero_other_than_0_is_malformed(client, zero):
    await client.refused_for_good(MALFORMED, frame(PING, 7, ping(), zero=zero))


@pytest.mark.parametrize("kind", [0, 0x10, 0x3F, MESSAGES, 0x44, 0x80, WELCOME, PONG, 0xFE, ERROR])
async def test_unknown_type_is_unsupported(client, kind):
    """Replies and events are no requests; what the body holds does not matter; the connection goes
    on.
    """
    await client.refused(UNSUPPORTED, kind)
    await client.refused(UNSUPPORTED, kind, b"\xff" * 100)
    await client.ping()


async def test_describe_is_answered_or_unsupported(client):
    answer = await client.request(DESCRIBE, describe())
    if answer.kind == DESCRIBED:
        json.loads(answer.json)
    else:
        check_error(answer, UNSUPPORTED, request_type=DESCRIBE)
    await client.ping()


async def test_undefined_flags_are_unsupported_and_not_carried_out(client):
    await client.refused(UNSUPPORTED, PUBLISH, publish("t", [b"x"]), flags=0x02, field="flags")
    for flags in (0x01, 0x80):
        for kind, body in [
            (CREATE, create("t")),
            (COMMIT, commit(1, 0)),
            (PING, ping()),
            (CLOSE, b""),
        ]:
            await client.refused(UNSUPPORTED, kind, body, flags=flags, field="flags")
    await client.refused(UNSUPPORTED, SUBSCRIBE, subscribe("t"), flags=0x08, field="flags")
    await client.refused(UNSUPPORTED, UNSUBSCRIBE, unsubscribe(1), flags=0x02, field="flags")
    assert (await client.create("t")).created == 1
    assert (await client.publish("t", b"x")).fields["first_offset"] == 0


MALFORMED_BODIES = [
    pytest.param(PING, ping()[:-1], id="ping short"),
    pytest.param(PING, ping() + b"\0", id="ping long"),
    pytest.param(CLOSE, b"\0", id="close long"),
    pytest.param(CREATE, b"", id="create without a topic"),
    pytest.param(CREATE, b"\x01", id="create with half a length"),
    pytest.param(CREATE, struct.pack("<H", 3) + b"ab", id="create with a topic beyond the frame"),
    pytest.param(CREATE, string("t"), id="create without settings"),
    pytest.param(CREATE, create("t", {TTL: 5})[:-1], id="create with half a setting"),
    pytest.param(
        CREATE,
        string("t") + b"\x02" + struct.pack("<BQ", TTL, 5),
        id="create with too few settings",
    ),
    pytest.param(CREATE, create("t", {TTL: 5}) + b"\0", id="create long"),
    pytest.param(PUBLISH, publish("t", [b"x"])[:15], id="publish that ends in sequence"),
    pytest.param(
        PUBLISH, struct.pack("<QQH", 0, 0, 9) + b"t", id="publish with a topic beyond the frame"
    ),
    pytest.param(SUBSCRIBE, subscribe("t")[:-1], id="subscribe short"),
    pytest.param(SUBSCRIBE, subscribe("t") + b"\0", id="subscribe long"),
    pytest.param(UNSUBSCRIBE, unsubscribe(1)[:-1], id="unsubscribe short"),
    pytest.param(UNSUBSCRIBE, unsubscribe(1) + b"\0", id="unsubscribe long"),
    pytest.param(COMMIT, commit(1, 1)[:-1], id="commit short"),
    pytest.param(COMMIT, commit(1, 1) + b"\0", id="commit long"),
]


@pytest.mark.parametrize(("kind", "body"), MALFORMED_BODIES)
async def test_body_that_does_not_come_out_even_is_malformed(client, kind, body):
    await client.refused_for_good(MALFORMED, frame(kind, 7, body), request_id=7, request_type=kind)


INVALID_FIELDS = [
    pytest.param("topic", CREATE, create(b"\xff\xfe"), id="create with bad UTF-8"),
    pytest.param("topic", PUBLISH, publish(b"\xc3", [b"x"]), id="publish with bad UTF-8"),
    pytest.param("topic", SUBSCRIBE, subscribe(b"\xed\xa0\x80"), id="subscribe with bad UTF-8"),
    pytest.param("topic", CREATE, create(""), id="no name"),
    pytest.param("topic", CREATE, create("x" * 201), id="long name"),
    pytest.param("topic", CREATE, create("é" * 101), id="long name in bytes"),
    pytest.param("topic", PUBLISH, publish("", [b"x"]), id="publish to no name"),
    pytest.param("topic", SUBSCRIBE, subscribe(""), id="subscribe to no name"),
    *(
        pytest.param("topic", CREATE, create(f"a{c}b"), id=f"{c!r}", marks=limits)
        for c in "\0\n\x1f\x7f\x80\x9f"
    ),
    pytest.param("topic", CREATE, create("$topic"), id="a name of the broker's"),
    pytest.param(
        "settings", CREATE, create("t", [(TTL, 1), (TTL, 1)]), id="a setting twice", marks=limits
    ),
    pytest.param(
        "settings", CREATE, create("t", {TTL: HUNDRED_YEARS_MS + 1}), id="ttl", marks=limits
    ),
    pytest.param(
        "settings",
        CREATE,
        create("t", {TTL: FOREVER - 1}),
        id="ttl just below forever",
        marks=limits,
    ),
    pytest.param(
        "settings", CREATE, create("t", {WINDOW: HUNDRED_YEARS_MS + 1}), id="window", marks=limits
    ),
    pytest.param("settings", CREATE, create("t", {CAPACITY: 0}), id="capacity", marks=limits),
    pytest.param("settings", CREATE, create("t", {MAX_BYTES: 0}), id="max_bytes", marks=limits),
    pytest.param("settings", CREATE, create("t", {MAX_KEYS: 0}), id="max_keys", marks=limits),
    pytest.param("start", SUBSCRIBE, subscribe("t", start=4), id="start"),
    pytest.param("credit", SUBSCRIBE, subscribe("t", credit=0), id="credit"),
    pytest.param("credit_bytes", SUBSCRIBE, subscribe("t", credit_bytes=0), id="credit_bytes"),
]


@pytest.mark.parametrize(("field", "kind", "body"), INVALID_FIELDS)
async def test_value_out_of_range_is_an_invalid_field(client, field, kind, body):
    await client.refused(INVALID_FIELD, kind, body, field=field)
    await client.ping()


def columns(count, key_offsets, payload_offsets, data=b""):
    return (
        struct.pack(
            f"<I{len(key_offsets)}i{len(payload_offsets)}i", count, *key_offsets, *payload_offsets
        )
        + data
    )


BAD_BATCHES = [
    pytest.param(b"", id="nothing"),
    pytest.param(b"\x01\0\0", id="half a count"),
    pytest.param(columns(0, [], []), id="no messages, no offsets"),
    pytest.param(columns(0, [0], [0]), id="no messages"),
    pytest.param(columns(1, [0, 0], [0]), id="an offset too few"),
    pytest.param(columns(100, [0, 0], [0, 1], b"x"), id="count too high"),
    pytest.param(columns(2**32 - 1, [0, 0], [0, 1], b"x"), id="count far too high"),
    pytest.param(columns(1, [1, 1], [0, 1], b"kx"), id="keys do not begin at 0"),
    pytest.param(columns(1, [0, 0], [1, 2], b"ax"), id="payloads do not begin at 0"),
    pytest.param(columns(2, [0, 1, 0], [0, 1, 2], b"xy"), id="keys decrease"),
    pytest.param(columns(2, [0, 0, 0], [0, 2, 1], b"x"), id="payloads decrease"),
    pytest.param(columns(3, [0, 2, 1, 2], [0, 0, 0, 0], b"kk"), id="keys decrease in the middle"),
    pytest.param(
        columns(3, [0, 0, 0, 0], [0, 3, 1, 3], b"xyz"), id="payloads decrease in the middle"
    ),
    pytest.param(columns(1, [0, -1], [0, 1], b"x"), id="a negative key offset"),
    pytest.param(columns(1, [0, 0], [0, -1]), id="a negative payload offset"),
    pytest.param(columns(1, [0, 0], [0, 2], b"x"), id="a byte too few"),
    pytest.param(columns(1, [0, 0], [0, 1], b"xy"), id="a byte too many"),
    pytest.param(columns(1, [0, 0], [0, 2**31 - 1], b"xy"), id="bytes that are not there"),
    pytest.param(batch([(b"k" * 1025, b"x")]), id="a key of 1,025 bytes", marks=limits),
    pytest.param(
        batch([b"x", (b"k" * 1025, b"x")]), id="a second key of 1,025 bytes", marks=limits
    ),
]


@pytest.mark.parametrize("bad", BAD_BATCHES)
async def test_bad_batch_is_an_invalid_field_and_stores_nothing(client, bad):
    await client.create("t", KEEP)
    await client.refused(INVALID_FIELD, PUBLISH, publish("t", bad), field="batch")
    assert (await client.publish("t", b"good")).first_offset == 0


async def test_earlier_rule_wins(connect):
    """Of two faults the one that is judged first is told."""
    client = await connect()
    await client.refused(UNSUPPORTED, PING, b"short", flags=0x10, field="flags")
    await client.refused(UNSUPPORTED, 0x7E, b"", flags=0xFF)
    await client.refused(UNSUPPORTED, CREATE, create(""), flags=0x10, field="flags")
    for data in (
        frame(0x7E, 7, zero=1),  # zero before type
        frame(PING, 7, ping(), flags=0x10, zero=1),  # zero before flags
        frame(CREATE, 7, create(b"\xff") + b"\0"),  # the body's end before what is inside
        frame(SUBSCRIBE, 7, subscribe(b"\xff", start=9)[:-1]),
        frame(SUBSCRIBE, 0, subscribe("t")[:-1]),  # the body's end before id 0
    ):
        await (await connect()).refused_for_good(MALFORMED, data)


async def test_zero_is_judged_before_hello_is_asked_for(dial):
    await (await dial()).refused_for_good(MALFORMED, frame(PING, 7, ping(), zero=1))
    await (await dial()).refused_for_good(HELLO_REQUIRED, frame(PING, 7, ping(), flags=0xFF))
    await (await dial()).refused_for_good(HELLO_REQUIRED, frame(PING, 7, b"short"))


@pytest.mark.parametrize(
    "bad",
    [
        frame(PUBLISH, 3, publish("t", [b"bad"]), zero=1),
        frame(COMMIT, 3, commit(1, 1) + b"\0"),
        struct.pack("<I", 2**32 - 1),
        struct.pack("<I", 0),
    ],
    ids=["zero", "body", "too large", "too small"],
)
async def test_bad_frame_ends_what_it_is_part_of_and_no_more(client, connect, bad):
    """What came before is answered, what is bad or comes after is not carried out, nobody else
    notices.

    However much comes after it, the client can read the error and the end of the stream.
    """
    reader, late = await connect(), await connect()
    reading = await reader.subscribe("t", start=LATEST)
    after = frame(PUBLISH, 4, publish("t", [b"after"])) * 3000
    await client.send(
        frame(PING, 1, ping()), frame(PUBLISH, 2, publish("t", [b"before"])), bad + after
    )
    assert (await client.reply(1)).kind == PONG
    assert (await client.reply(2)).first_offset == 0
    answer = await client.read()
    assert answer.kind == ERROR
    assert answer.code in {MALFORMED, FRAME_TOO_LARGE}
    await client.ends()
    assert await reader.messages(reading.id, 0) == [b"before"]
    assert (await late.publish("t", b"late")).first_offset == 1
    assert await reader.messages(reading.id, 1) == [b"late"]
    await reader.nothing_arrives()


# ------------------------------------------------------------------------------------------- ids,
# vectors


async def test_id_0_asks_for_silence(client):
    """Success is not answered, but what was asked for is done."""
    await client.send(
        frame(CREATE, 0, create("t", KEEP)),
        frame(PING, 0, ping()),
        frame(SUBSCRIBE, 5, subscribe("t", credit=1)),
        frame(PUBLISH, 0, publish("t", [b"a", b"b"])),
        frame(PUBLISH, 6, publish("t", [b"c"])),
    )
    assert (await client.reply(5)).start == 0
    assert (await client.reply(6)).first_offset == 2
    assert await client.messages(5, 0) == [b"a"]
    await client.send(frame(COMMIT, 0, commit(5, 1)))
    assert await client.messages(5, 1) == [b"b"]
    await client.send(frame(UNSUBSCRIBE, 0, unsubscribe(5)), frame(PING, 7, ping(7)))
    assert (await client.reply(7)).value == 7
    assert (await client.publish("t", b"d")).subscribers == 0
    await client.nothing_arrives()


async def test_id_0_does_not_silence_errors(client):
    for code, kind, body in [
        (UNSUPPORTED, 0x7E, b""),
        (INVALID_FIELD, CREATE, create("")),
        (INVALID_FIELD, PUBLISH, publish("t", b"")),
        (NO_SUCH_SUBSCRIPTION, COMMIT, commit(9, 1)),
        (NO_SUCH_SUBSCRIPTION, UNSUBSCRIBE, unsubscribe(9)),
    ]:
        await client.refused(code, kind, body, request_id=0)
    await client.refused_for_good(MALFORMED, frame(PING, 0), request_id=0, request_type=PING)


async def test_close_with_id_0_ends_in_silence(client):
    await client.send(frame(PING, 3, ping(4)), frame(CLOSE, 0))
    assert (await client.reply(3)).value == 4
    await client.ends()


async def test_replies_come_in_the_order_of_the_requests(client):
    """Successes and errors alike, whatever their ids."""
    requests = [(9, PING), (2, 0x7E), (2, PING), (2**32 - 1, COMMIT), (9, PING), (1, 0x7E)] * 50
    bodies = {PING: ping(1), COMMIT: commit(1, 1), 0x7E: b""}
    await client.send(*(frame(kind, i, bodies[kind]) for i, kind in requests))
    for i, kind in requests:
        answer = await client.reply(i)
        assert answer.kind == (PONG if kind == PING else ERROR)
        assert kind == PING or answer.request_type == kind


async def test_ids_of_subscribes_must_increase(client):
    """Neither 0 nor what an earlier Subscribe had or passed; other requests' ids do not count."""
    body = subscribe("t")
    await client.refused(INVALID_FIELD, SUBSCRIBE, body, request_id=0, field="id")
    await client.ok(PING, ping(), request_id=1000)
    await client.ok(SUBSCRIBE, body, request_id=5)
    await client.refused(INVALID_FIELD, SUBSCRIBE, body, request_id=5, field="id")
    await client.refused(INVALID_FIELD, SUBSCRIBE, body, request_id=4, field="id")
    await client.ok(SUBSCRIBE, body, request_id=7)
    await client.ok(UNSUBSCRIBE, unsubscribe(7), request_id=7)
    await client.refused(INVALID_FIELD, SUBSCRIBE, body, request_id=7, field="id")
    await client.ok(SUBSCRIBE, body, request_id=2**32 - 1)
    assert (await client.publish("t", b"x")).subscribers == 2


async def test_ids_of_subscribes_are_each_connections_own(client, connect):
    other = await connect()
    for each in (client, other):
        await each.ok(SUBSCRIBE, subscribe("t", start=LATEST), request_id=3)
    assert (await client.publish("t", b"x")).subscribers == 2
    for each in (client, other):
        assert await each.messages(3, 0) == [b"x"]


VECTORS = {
    vector["name"]: vector
    for vector in json.loads((ROOT / "protocol/vectors/frames.json").read_text())
}
REQUESTS = [
    name for name, vector in VECTORS.items() if 1 <= bytes.fromhex(vector["hex"])[4] <= DEAD
]


OPTIONAL = {DESCRIBE, DELETE, DISCONNECT, EXPLAIN, ADVANCE_CLOCK, SETTLE, DEAD}


def check_lacks(answer, kind, fields):
    """That is the error of a broker that lacks an option, or what the request is about."""
    may_lack = {"name"} if fields.get("name") else {"producer"} if fields.get("producer") else set()
    if fields.get("owned") or fields.get("tombstones") or fields.get("shared"):
        may_lack = {"flags"}
    if kind == CREATE and any(setting in {8, 11} for setting, _ in fields["settings"]):
        may_lack = {"settings"}
    if kind in {DELETE, EXPLAIN, DEAD} and answer.code == NO_SUCH_TOPIC:
        return
    if kind == SETTLE and answer.code == NO_SUCH_SUBSCRIPTION:
        return
    if kind == DISCONNECT and answer.code == INVALID_FIELD:
        return  # there is no such connection
    if kind == ADVANCE_CLOCK and answer.code == INVALID_FIELD:
        return  # that time is past
    allowed = {
        COMMIT: NO_SUCH_SUBSCRIPTION,
        UNSUBSCRIBE: NO_SUCH_SUBSCRIPTION,
    }.get(kind, UNSUPPORTED)
    if kind == PUBLISH and fields["sequence"] and answer.code == PRODUCER_UNKNOWN:
        allowed = PRODUCER_UNKNOWN  # its number says that others came before it
    if kind == SUBSCRIBE and fields["epoch"] and answer.code == EPOCH_CHANGED:
        allowed, may_lack = EPOCH_CHANGED, {"epoch"}  # there is no such topic
    check_error(answer, allowed, request_type=kind)
    assert allowed == NO_SUCH_SUBSCRIPTION or kind in OPTIONAL or answer.field in may_lack, answer


@pytest.mark.parametrize("name", REQUESTS)
async def test_requests_of_the_vectors_are_understood(dial, name):
    """Each is answered with success, or with the error of a broker without that option."""
    data, fields = bytes.fromhex(VECTORS[name]["hex"]), VECTORS[name]["fields"]
    kind, client = data[4], await dial()
    if kind == HELLO and fields["auth"] and client.is_known:
        pytest.skip("this broker knows users")
    if kind != HELLO:
        await client.hello()
    await client.send(data)
    if fields["id"] == 0 and kind == PUBLISH:
        await client.ping()
        assert await client.next_offset("t") == 1
        return
    answer = await client.reply(fields["id"])
    if answer.kind == ERROR:
        check_lacks(answer, kind, fields)
    else:
        assert answer.kind == kind | 0x80


INVALID = json.loads((ROOT / "protocol/vectors/invalid.json").read_text())
INVALID = {vector["name"]: vector for vector in INVALID if vector["receiver"] == "broker"}
CODES = {
    "MALFORMED": MALFORMED,
    "FRAME_TOO_LARGE": FRAME_TOO_LARGE,
    "HELLO_REQUIRED": HELLO_REQUIRED,
    "INVALID_FIELD": INVALID_FIELD,
    "UNSUPPORTED": UNSUPPORTED,
}


@pytest.mark.parametrize("name", INVALID)
async def test_invalid_vectors_are_refused(dial, name):
    """With the error they name; the connection goes on or ends as that error says.

    The text binds a broker to a `field` only in INVALID_FIELD and for flags.
    """
    vector, client = INVALID[name], await dial()
    data, code = bytes.fromhex(vector["hex"]), CODES[vector["code"]]
    if vector["hello_done"]:
        await client.hello()
    await client.send(data)
    answer = await client.read()
    if data[4:5] in map(int.to_bytes, OPTIONAL) and (answer.code, answer.field) == (
        UNSUPPORTED,
        "type",
    ):
        return  # a broker that does not know one of these does not look into it
    if (
        data[4:5] == bytes([SUBSCRIBE])
        and data[5] & (OWNED | SHARED)
        and (answer.code, answer.field)
        == (
            UNSUPPORTED,
            "flags",
        )
    ):
        return  # nor into what comes with these flags
    fatal = code < INVALID_FIELD or not vector["hello_done"]
    named = code == INVALID_FIELD or vector["field"] == "flags"
    check_error(answer, code, field=vector["field"] if named else None, fatal=fatal)
    if fatal:
        await client.ends()
    else:
        await client.ping()


# ------------------------------------------------------------------------------------------------
# topics


async def test_topic_is_created_once(client, broker):
    """Again with the same settings, some of them, or none, it is there already."""
    first = await client.create("t", KEEP)
    assert (first.created, first.epoch) == (1, broker.now_us)
    assert first.settings.items() >= KEEP.items(), "a broker may have more"
    assert list(first.settings) == sorted(first.settings)
    broker.advance(1)
    for settings in (KEEP, {}, {CAPACITY: 10_000}, dict(reversed(KEEP.items()))):
        again = await client.create("t", settings)
        assert (again.created, again.epoch, again.settings) == (0, first.epoch, first.settings)


async def test_settings_not_named_are_not_compared(client):
    """Nor are they reset to their defaults; one that is named and differs is enough to fail."""
    settings = (await client.create("t", {TTL: 5000, CAPACITY: 7})).settings
    assert (settings[TTL], settings[CAPACITY]) == (5000, 7)
    assert (await client.create("t")).settings == settings
    for number, value in settings.items():
        assert (await client.create("t", {number: value})).settings == settings
        other = 1 - value if number == OVERFLOW else value + 5
        await client.refused(TOPIC_EXISTS, CREATE, create("t", {number: other}))
        await client.refused(TOPIC_EXISTS, CREATE, create("t", settings | {number: other}))
    assert (await client.create("t")).settings == settings


async def test_unknown_setting_is_unsupported(client):
    for number in (0, OVERFLOW + 1, 255):
        await client.refused(UNSUPPORTED, CREATE, create("t", {number: 1}), field="settings")
    assert (await client.create("t")).created == 1


async def test_settings_may_take_their_extreme_values(client):
    extremes = {
        TTL: HUNDRED_YEARS_MS,
        WINDOW: HUNDRED_YEARS_MS,
        CAPACITY: 1,
        MAX_BYTES: 1,
        MAX_KEYS: 1,
    }
    assert (await client.create("small", extremes)).settings.items() >= extremes.items()
    forever = {TTL: FOREVER, WINDOW: FOREVER}
    assert (await client.create("forever", forever)).settings.items() >= forever.items()


@pytest.mark.parametrize("name", ["x", "é" * 100, " ", "a$", "\u00a0", "🐇", "/a/b.c"], ids=ascii)
async def test_names_may_be_what_they_like(client, name):
    """Two hundred bytes of anything but control characters."""
    assert (await client.create(name)).created == 1
    reading = await client.subscribe(name)
    assert (await client.publish(name, b"x")).subscribers == 1
    assert await client.messages(reading.id, 0) == [b"x"]


async def test_names_are_compared_byte_by_byte(client):
    for name in ("É", "é", "e\u0301", "t", "T", "t "):
        assert (await client.create(name)).created == 1


async def test_topic_made_by_a_subscribe_takes_the_settings_named_first(client, connect, broker):
    """Who subscribed before goes on reading; who comes with other settings after is too late."""
    reader = await connect()
    reading = await reader.subscribe("t")
    defaults = (await client.create("defaults")).settings
    broker.advance(1)
    adopted = await client.create("t", {TTL: 77, CAPACITY: 3})
    assert (adopted.created, adopted.epoch) == (0, reading.epoch)
    assert adopted.settings == defaults | {TTL: 77, CAPACITY: 3}
    assert (await client.create("t", {TTL: 77})).settings == adopted.settings
    await client.refused(TOPIC_EXISTS, CREATE, create("t", {TTL: 78}))
    await client.refused(BATCH_TOO_LARGE, PUBLISH, publish("t", [b"x"] * 4))
    assert (await client.publish("t", b"x")).subscribers == 1
    assert await reader.messages(reading.id, 0) == [b"x"]


async def test_topic_in_which_something_was_stored_keeps_its_settings(client):
    await client.publish("t", b"x")
    defaults = (await client.create("t")).settings
    await client.refused(TOPIC_EXISTS, CREATE, create("t", {CAPACITY: defaults[CAPACITY] - 1}))
    assert (await client.create("t", defaults)).created == 0


async def test_many_creators_make_one_topic(connect):
    """Exactly one of twenty made it; who subscribed in the midst of it receives."""
    clients = [await connect() for _ in range(20)]
    answers, reader = [], await connect()

    async def make(client):
        answers.append(await client.create("t", KEEP))

    async with anyio.create_task_group() as tasks:
        for client in clients[:10]:
            tasks.start_soon(make, client)
    async with anyio.create_task_group() as tasks:
        for client in clients[10:15]:
            tasks.start_soon(make, client)
        reading = await reader.subscribe("t", start=LATEST)
        for client in clients[15:]:
            tasks.start_soon(make, client)
    assert sum(answer.created for answer in answers) == 1
    assert {answer.epoch for answer in answers} == {reading.epoch}
    for offset, client in enumerate(clients):
        assert (await client.publish("t", b"x")).first_offset == offset
    await reader.messages(reading.id, *range(20))


async def test_many_subscribers_make_one_topic(connect):
    clients = [await connect() for _ in range(20)]
    readings = {}

    async def start(client):
        readings[client] = await client.subscribe("t")

    async with anyio.create_task_group() as tasks:
        for client in clients:
            tasks.start_soon(start, client)
    assert (await clients[0].publish("t", b"x")).subscribers == 20
    for client in clients:
        assert await client.messages(readings[client].id, 0) == [b"x"]
        await client.nothing_arrives()


# -----------------------------------------------------------------------------------------------
# publish


async def test_publisher_gets_back_what_it_published(client):
    """Subscribed, Published and Messages come in the order the text promises; messages in their
    order.
    """
    requests = [frame(SUBSCRIBE, 1, subscribe("t"))]
    requests += [frame(PUBLISH, 10 + i, publish("t", [b"%d" % i])) for i in range(100)]
    await client.send(*requests)
    await client.reply(1)
    for i in range(100):
        answer = await client.reply(10 + i)
        assert (answer.first_offset, answer.stored, answer.compacted) == (i, 1, 0)
    assert await client.messages(1, *range(100)) == [b"%d" % i for i in range(100)]
    assert client.log[1].kind == SUBSCRIBED  # after Welcome
    published = set()
    for received in client.log:
        if received.kind == PUBLISHED:
            published.add(received.first_offset)
        if received.kind == MESSAGES:
            assert published.issuperset(offset for offset, _, _ in received.messages)


async def test_offsets_are_dense_in_each_topic(client, connect):
    """Whoever publishes, and however many at once."""
    other, expected = await connect(), {"a": 0, "b": 0}
    for i in range(30):
        publisher, topic, size = (client, other)[i % 2], "ab"[i % 3 == 0], i % 4 + 1
        answer = await publisher.publish(topic, *[b"x"] * size)
        assert (answer.first_offset, answer.stored) == (expected[topic], size)
        expected[topic] += size
    for topic, following in expected.items():
        assert await other.next_offset(topic) == following


async def test_published_counts_the_topics_subscriptions(client, connect, broker):
    """On all connections, with credit or without, until they end."""
    other = await connect()
    assert (await client.publish("t", b"x")).subscribers == 0
    first = await other.subscribe("t", credit=1)
    await other.subscribe("t", credit=1)
    await other.subscribe("another")
    await client.subscribe("t", start=LATEST)
    assert [(await client.publish("t", b"x")).subscribers for _ in range(3)] == [3] * 3
    await other.unsubscribe(first.id)
    assert (await client.publish("t", b"x")).subscribers == 2
    await other.ok(CLOSE)
    assert (await client.publish("t", b"x")).subscribers == 1


async def test_batch_arrives_as_it_was_sent(client, broker):
    """Keys, empty keys, empty payloads and bytes of every value, and the time at which it was
    accepted.
    """
    reading = await client.subscribe("t")
    every = bytes(range(256))
    messages = [
        (b"", b""),
        (b"k", b""),
        (b"", b"x"),
        (every * 4, every),
        (b"k", b"y"),
        (b"\0", b"\0"),
    ]
    broker.advance(0.25)
    assert (await client.publish("t", *messages)).stored == len(messages)
    got = []
    while len(got) < len(messages):
        event = await client.event(MESSAGES, reading.id)
        assert event.accepted_us == START_US + 250_000
        got += event.messages
    assert got == [(offset, *message) for offset, message in enumerate(messages)]


async def test_pieces_never_mix_batches(client, broker):
    """What a frame holds was accepted at one time, even if all of it waited."""
    await client.create("t", KEEP)
    for size in (3, 1, 4):
        await client.publish("t", *[b"x"] * size)
        broker.advance(1)
    reading = await client.subscribe("t")
    batch_of = [0, 0, 0, 1, 2, 2, 2, 2]
    got = []
    while len(got) < len(batch_of):
        event = await client.event(MESSAGES, reading.id)
        offsets = [offset for offset, _, _ in event.messages]
        assert {batch_of[offset] for offset in offsets} == {batch_of[offsets[0]]}
        assert event.accepted_us == START_US + 1_000_000 * batch_of[offsets[0]]
        got += offsets
    assert got == list(range(len(batch_of)))


@limits
async def test_largest_batches_are_accepted_and_larger_ones_are_not(client):
    welcome = client.welcome
    await client.create("t", KEEP | {CAPACITY: welcome.max_batch})
    room = welcome.max_frame - 8 - len(publish("t", b""))

    async def refused(code, messages):
        columns = batch(messages)
        if len(columns) <= room:
            await client.refused(code, PUBLISH, publish("t", columns))

    await refused(MESSAGE_TOO_LARGE, [b"x" * (welcome.max_message + 1)])
    await refused(MESSAGE_TOO_LARGE, [(b"k", b"x" * welcome.max_message)])
    await refused(BATCH_TOO_LARGE, [b"x" * welcome.max_message, b"y"])
    await refused(BATCH_TOO_LARGE, [b"x" * (welcome.max_message + 1), b"y"])
    await refused(BATCH_TOO_LARGE, [b""] * (welcome.max_batch + 1))
    assert await client.next_offset("t") == 0
    largest = [(b"k", b"x" * (welcome.max_message - 2)), b"y"]
    for messages in ([largest[0][1] + b"xx"], largest, [b""] * welcome.max_batch):
        if len(batch(messages)) <= room:
            assert (await client.publish("t", *messages)).stored == len(messages)


async def test_key_may_have_1024_bytes(client):
    assert (await client.publish("t", (b"k" * 1024, b""))).stored == 1


async def test_batch_beyond_the_ring_is_too_large(client):
    """More messages than the capacity: nothing is stored, no window opens."""
    await client.create("few", KEEP | {CAPACITY: 2, WINDOW: 1000})
    await client.refused(BATCH_TOO_LARGE, PUBLISH, publish("few", [(b"k", b"x")] * 3))
    answer = await client.publish("few", (b"k", b"x"), b"y")
    assert (answer.first_offset, answer.stored) == (0, 2)


@limits
async def test_batch_of_more_bytes_than_the_ring_is_too_large(client):
    size = len(batch([b"x" * 100]))
    await client.create("small", KEEP | {MAX_BYTES: size})
    await client.refused(BATCH_TOO_LARGE, PUBLISH, publish("small", [b"x" * 101]))
    assert (await client.publish("small", b"x" * 100)).first_offset == 0


async def test_numbered_publish_is_carried_out_or_unsupported(client):
    answer = await client.request(PUBLISH, publish("t", [b"x"], producer=5, sequence=0))
    if answer.kind == PUBLISHED:
        assert answer.first_offset == 0
    else:
        check_error(answer, UNSUPPORTED, field="producer", request_type=PUBLISH)
        assert (await client.publish("t", b"x")).first_offset == 0


# --------------------------------------------------------------------------------------------
# compaction


async def test_window_is_half_open(client, broker):
    """It closes exactly its length after the message that opened it; what it kept out does not
    prolong it.
    """
    await client.create("t", KEEP | {WINDOW: 8000})
    kept, out = (1, 0), (0, 1)

    async def outcome():
        answer = await client.publish("t", (b"k", b"x"))
        return answer.stored, answer.compacted

    assert await outcome() == kept
    assert await outcome() == out  # at the same time
    broker.advance(4)
    assert await outcome() == out
    broker.advance(3.999999)
    assert await outcome() == out  # the last microsecond
    broker.advance(0.000001)
    assert await outcome() == kept  # opens the next window
    broker.advance(7.999999)
    assert await outcome() == out
    broker.advance(0.000001)
    assert await outcome() == kept
    reading = await client.subscribe("t")
    times = [(await client.event(MESSAGES, reading.id)).accepted_us for _ in range(3)]
    assert times == [START_US, START_US + 8_000_000, START_US + 16_000_000]


async def test_first_message_of_a_key_wins_within_a_batch(client):
    """The bitmap tells which messages were dropped; those without a key never are."""
    await client.create("t", KEEP | {WINDOW: 1000})
    reading = await client.subscribe("t")
    messages = [
        (b"a", b"0"),
        (b"b", b"1"),
        (b"a", b"2"),  # dropped
        b"3",
        (b"b", b"4"),  # dropped
        (b"A", b"5"),
        (b"a\0", b"6"),
        b"7",
        (b"a", b"8"),  # dropped
        (b"c", b"9"),
    ]
    answer = await client.publish("t", *messages)
    assert (answer.first_offset, answer.stored, answer.compacted) == (0, 7, 3)
    assert answer.dropped == bytes([0b00010100, 0b01])
    got = await client.messages(reading.id, *range(7))
    assert got == [b"0", b"1", b"3", b"5", b"6", b"7", b"9"]


async def test_batch_of_which_nothing_is_stored(client):
    """`first_offset` is the next offset to come; readers get nothing; no bits are sent if none is
    dropped.
    """
    await client.create("t", KEEP | {WINDOW: 1000})
    reading = await client.subscribe("t")
    assert (await client.publish("t", (b"k", b"x"), b"y")).dropped == b""
    answer = await client.publish("t", *[(b"k", b"x")] * 9)
    assert (answer.first_offset, answer.stored, answer.compacted) == (2, 0, 9)
    assert answer.dropped == b"\xff\x01"
    await client.messages(reading.id, 0, 1)
    await client.nothing_arrives()
    assert (await client.publish("t", b"z")).first_offset == 2
    assert await client.messages(reading.id, 2) == [b"z"]


async def test_window_outlives_its_message(client, broker):
    """Neither eviction, nor expiry, nor freeing lets a later message of the key in."""
    await client.create("evicts", {TTL: FOREVER, WINDOW: FOREVER, CAPACITY: 1})
    await client.create("expires", {TTL: 1000, WINDOW: FOREVER})
    await client.create("frees", {TTL: 0, WINDOW: FOREVER})
    for topic in ("evicts", "expires", "frees"):
        assert (await client.publish(topic, (b"k", b"x"))).stored == 1
        assert (await client.publish(topic, b"y")).stored == 1
    broker.advance(1e9)
    await broker.sweep()
    for topic in ("evicts", "expires", "frees"):
        answer = await client.publish(topic, (b"k", b"x"))
        assert (answer.first_offset, answer.stored) == (2, 0)


async def test_windows_of_different_keys_are_their_own(client, broker):
    await client.create("t", KEEP | {WINDOW: 2000})
    await client.publish("t", (b"a", b""))
    broker.advance(1)
    await client.publish("t", (b"b", b""))
    broker.advance(1)
    answer = await client.publish("t", (b"b", b""), (b"a", b""))
    assert (answer.stored, answer.dropped) == (1, b"\x01")


async def test_without_a_window_everything_is_kept(client):
    await client.create("t", KEEP | {WINDOW: 0})
    assert (await client.publish("t", *[(b"k", b"x")] * 5)).stored == 5


# ---------------------------------------------------------------------------------------------
# retention


async def test_message_expires_exactly_after_its_retention(client, broker):
    """It is there for the last microsecond, and is gone at the next, for everybody."""
    await client.create("t", KEEP | {TTL: 10_000})
    await client.publish("t", b"old")
    broker.advance(9.999999)
    reading = await client.subscribe("t", start=EARLIEST)
    assert (reading.start, reading.live) == (0, 1)
    assert await client.messages(reading.id, 0) == [b"old"]
    broker.advance(0.000001)
    late = await client.subscribe("t", start=EARLIEST)
    assert (late.start, late.live) == (1, 1)
    precise = await client.subscribe("t", start=OFFSET, value=0)
    await client.lagged(precise.id, 0, 1)
    await client.nothing_arrives()


async def test_expiry_is_told_to_who_was_not_in_time(client, broker):
    """A reader without credit gets it when it commits, even if no message follows, and goes on."""
    await client.create("t", KEEP | {TTL: 10_000})
    slow = await client.subscribe("t", credit=1)
    await client.publish("t", b"0", b"1", b"2")
    await client.messages(slow.id, 0)
    broker.advance(5)
    await client.publish("t", b"3")
    broker.advance(5)
    await broker.sweep()
    await client.nothing_arrives()
    assert await client.commit(slow.id, 1) == 1
    await client.lagged(slow.id, 1, 3)
    assert await client.messages(slow.id, 3) == [b"3"]
    await client.publish("t", b"4", b"5")
    broker.advance(10)
    await client.nothing_arrives()
    assert await client.commit(slow.id, 4) == 4
    await client.lagged(slow.id, 4, 6)  # and no message follows
    await client.nothing_arrives()
    await client.publish("t", b"6")
    assert await client.messages(slow.id, 6) == [b"6"]


async def test_retention_forever_keeps_what_the_ring_holds(client, broker):
    await client.create("t", KEEP | {TTL: FOREVER})
    await client.publish("t", b"x", b"y")
    broker.advance(1e9)
    await broker.sweep()
    reading = await client.subscribe("t", start=EARLIEST)
    assert await client.messages(reading.id, 0, 1) == [b"x", b"y"]


async def test_retention_0_gives_latecomers_nothing_old(client, broker):
    """`earliest` means `latest`; but who was there when it was published gets it, however late."""
    await client.create("t", {TTL: 0})
    early = await client.subscribe("t", credit=1)
    await client.publish("t", b"0", b"1", b"2")
    late = await client.subscribe("t", start=EARLIEST)
    assert (late.start, late.live) == (3, 3)
    precise = await client.subscribe("t", start=OFFSET, value=1)  # kept for the early one
    assert await client.messages(early.id, 0) == [b"0"]
    assert await client.messages(precise.id, 1, 2) == [b"1", b"2"]
    broker.advance(1e6)
    await broker.sweep()
    await client.nothing_arrives()
    await client.commit(early.id, 1)
    assert await client.messages(early.id, 1) == [b"1"]
    await client.commit(early.id, 2)
    assert await client.messages(early.id, 2) == [b"2"]


async def test_retention_0_frees_what_everybody_has_settled(client, broker):
    """Below the position of every subscription; all of it if there is none."""
    await client.create("t", {TTL: 0})
    reading = await client.subscribe("t", credit=2)
    await client.publish("t", b"0", b"1", b"2", b"3")
    await client.messages(reading.id, 0, 1)
    await client.commit(reading.id, 2)
    await client.messages(reading.id, 2, 3)
    broker.advance(1)
    await broker.sweep()
    curious = await client.subscribe("t", start=OFFSET, value=0)
    lag = await client.event(LAGGED, curious.id)
    assert lag.from_offset == 0
    assert lag.to_offset in {2, 4}  # below what is settled, or below what is delivered
    await client.unsubscribe(curious.id)
    client.events.clear()
    await client.unsubscribe(reading.id)
    broker.advance(1)
    await broker.sweep()
    curious = await client.subscribe("t", start=OFFSET, value=0)
    await client.lagged(curious.id, 0, 4)
    assert (await client.publish("t", b"4")).first_offset == 4
    assert await client.messages(curious.id, 4) == [b"4"]


# ------------------------------------------------------------------------------------------------
# starts


async def test_subscription_starts_where_it_asks_to(client, broker):
    """At the head, the next offset, an offset, or the first message accepted at or after a time."""
    await client.create("t", KEEP)
    for _ in range(3):  # at 0, 1 and 2 seconds: offsets 0-1, 2-3 and 4-5
        await client.publish("t", b"x", b"y")
        broker.advance(1)
    second = START_US + 1_000_000
    for start, value, expected in [
        (EARLIEST, 0, 0),
        (LATEST, 0, 6),
        (OFFSET, 0, 0),
        (OFFSET, 5, 5),
        (OFFSET, 6, 6),
        (TIME, 0, 0),
        (TIME, second - 1, 2),
        (TIME, second, 2),
        (TIME, second + 1, 4),
        (TIME, second + 1_000_000, 4),
        (TIME, second + 1_000_001, 6),
        (TIME, 2**64 - 1, 6),
    ]:
        reading = await client.subscribe("t", start=start, value=value)
        assert (reading.start, reading.committed, reading.live) == (expected, expected, 6)
        await client.messages(reading.id, *range(expected, 6))
        await client.nothing_arrives()
        await client.unsubscribe(reading.id)


async def test_start_beyond_the_end_is_refused(client):
    await client.publish("t", b"x")
    for value in (2, 2**64 - 1):
        await client.refused(OFFSET_AHEAD, SUBSCRIBE, subscribe("t", start=OFFSET, value=value))
    assert (await client.publish("t", b"x")).subscribers == 0


async def test_start_below_the_head_is_told_at_once(client):
    """By one Lagged, after which it goes on at the head."""
    await client.create("t", KEEP | {CAPACITY: 3})
    for i in range(10):
        await client.publish("t", b"%d" % i)
    earliest = await client.subscribe("t", start=EARLIEST)
    assert earliest.start == 7
    assert await client.messages(earliest.id, 7, 8, 9) == [b"7", b"8", b"9"]
    below = await client.subscribe("t", start=OFFSET, value=2)
    await client.lagged(below.id, 2, 7)
    assert await client.messages(below.id, 7, 8, 9) == [b"7", b"8", b"9"]
    by_time = await client.subscribe("t", start=TIME, value=0)
    assert by_time.start == 7
    await client.messages(by_time.id, 7, 8, 9)
    await client.nothing_arrives()


async def test_epoch_must_be_the_topics_or_0(client, broker):
    broker.advance(5)
    epoch = (await client.create("t")).epoch
    assert epoch == broker.now_us
    broker.advance(5)
    assert (await client.subscribe("t", epoch=epoch)).epoch == epoch
    await client.refused(EPOCH_CHANGED, SUBSCRIBE, subscribe("t", epoch=epoch + 1))
    assert (await client.publish("t", b"x")).subscribers == 1


async def test_name_is_taken_or_unsupported(client):
    answer = await client.request(SUBSCRIBE, subscribe("t", name="worker"))
    if answer.kind == SUBSCRIBED:
        assert answer.flags == 0x01
    else:
        check_error(answer, UNSUPPORTED, field="name", request_type=SUBSCRIBE)
        assert (await client.publish("t", b"x")).subscribers == 0


# ----------------------------------------------------------------------- owners, deletion,
# disconnection


async def owner_of(connect, owner, attempt):
    """A connection on which an owner asks for a name, and the answer; skips what a broker may leave
    out.
    """
    client = await connect(features=OWNER)
    if not client.welcome.features & OWNER:
        pytest.skip("this broker does not know owners")
    body = owned("t", owner, attempt, name="worker")
    return client, await client.request(SUBSCRIBE, body, flags=OWNED)


async def test_owner_that_was_replaced_does_not_get_its_name_back(connect):
    await owner_of(connect, 1, 1)
    present, answer = await owner_of(connect, 2, 7)
    for owner, attempt, field in [
        (1, 2, "owner"),
        (1, 2**32 - 1, "owner"),
        (2, 7, "attempt"),
        (2, 6, "attempt"),
    ]:
        _, refused = await owner_of(connect, owner, attempt)
        check_error(refused, TAKEN_OVER, field=field, request_type=SUBSCRIBE)
    await present.publish("t", b"x")
    await present.messages(answer.id, 0)


async def test_owner_comes_back_with_a_greater_attempt(connect):
    old, first = await owner_of(connect, 1, 0)
    assert (first.kind, first.flags) == (SUBSCRIBED, 0x01)
    _, again = await owner_of(connect, 1, 1)
    assert (again.kind, again.flags) == (SUBSCRIBED, 0x03)
    ended = await old.event(ENDED, first.id)
    assert (ended.kind, ended.code) == (ENDED, 2)


async def test_owner_is_not_0(connect):
    _, answer = await owner_of(connect, 0, 1)
    check_error(answer, INVALID_FIELD, field="owner", request_type=SUBSCRIBE)


# ---------------------------------------------------------------------------------------- tables


async def table_of(connect, **settings):
    """A connection that knows tables, and a table `t`; skips what a broker may leave out."""
    client = await connect(features=TABLES)
    if not client.welcome.features & TABLES:
        pytest.skip("this broker has no tables")
    numbers = {CAPACITY: settings.get("capacity"), TOMBSTONES_MS: settings.get("tombstones_ms")}
    named = {number: value for number, value in numbers.items() if value is not None}
    await client.create("t", {TABLE: 1, **named})
    return client


async def put(client, *messages):
    return await client.ok(PUBLISH, publish("t", messages), flags=TOMBSTONES)


async def test_table_gives_a_late_reader_the_last_message_of_each_key(connect):
    client = await table_of(connect)
    await put(client, (b"a", b"1"), (b"b", b"1"), b"no key")
    published = await put(client, (b"a", b"2"), (b"a", b"3"))
    assert (published.first_offset, published.stored, published.compacted) == (3, 2, 0)
    reading = await client.subscribe("t", credit=10)
    assert (reading.start, reading.live) == (0, 5)
    assert await client.messages(reading.id, 1, 2, 4) == [b"1", b"no key", b"3"]
    await client.nothing_arrives()
    assert await client.commit(reading.id, 5) == 5


async def test_table_is_told_from_other_topics_by_subscribed(connect):
    client = await table_of(connect)
    assert (await client.subscribe("t", credit=1)).flags & IN_TABLE
    assert not (await client.subscribe("other", credit=1)).flags & IN_TABLE


async def test_table_keeps_what_was_sent_in_flight_and_passes_holes_without_credit(connect):
    client = await table_of(connect)
    await put(client, (b"a", b"1"))
    reading = await client.subscribe("t", credit=1)
    await client.messages(reading.id, 0)
    await put(client, (b"a", b"2"))
    await put(client, (b"a", b"3"))
    await client.nothing_arrives()
    await client.commit(reading.id, 1)
    assert await client.messages(reading.id, 2) == [b"3"]
    await client.nothing_arrives()


async def test_table_ends_a_reader_that_passes_its_until(connect):
    client = await table_of(connect)
    await put(client, (b"a", b"1"), (b"b", b"1"))
    await put(client, (b"b", b"2"))
    reading = await client.subscribe("t", until=2)
    await client.messages(reading.id, 0)
    await client.ended(reading.id, 2)


async def test_table_is_not_for_clients_that_do_not_know_tables(connect):
    await table_of(connect)
    client = await connect()
    await client.refused(UNSUPPORTED, SUBSCRIBE, subscribe("t"), field="topic")
    await client.publish("t", (b"a", b"1"))


async def test_table_judges_a_batch_by_what_is_left_after_it(connect):
    client = await table_of(connect, capacity=2)
    await put(client, (b"a", b"1"), (b"b", b"1"))
    full = publish("t", [(b"c", b"1")])
    await client.refused(TABLE_FULL, PUBLISH, full)
    assert await client.next_offset("t") == 2
    await put(client, (b"c", b"1"), (b"a", b""))
    await put(client, *[(b"b", b"%d" % number) for number in range(10)])
    await client.refused(TABLE_FULL, PUBLISH, publish("t", [b"no key"]))


async def test_table_deletes_a_key_only_if_that_is_meant(connect):
    client = await table_of(connect)
    await put(client, (b"a", b"1"))
    deletion = publish("t", [(b"b", b"1"), (b"a", b"")])
    await client.refused(INVALID_FIELD, PUBLISH, deletion, field="batch")
    assert await client.next_offset("t") == 1
    await client.publish("t", b"")


async def test_table_tells_of_deletions_that_were_missed_once(connect, broker):
    client = await table_of(connect, tombstones_ms=1000)
    await put(client, (b"a", b"1"), (b"b", b"1"))
    reading = await client.subscribe("t", credit=1)
    await client.messages(reading.id, 0)
    await put(client, (b"a", b""))
    await put(client, (b"c", b"1"))
    broker.advance(2)
    await broker.sweep()
    await client.commit(reading.id, 1)
    missed = await client.event(DELETIONS_MISSED, reading.id)
    assert missed.below == 3
    await client.messages(reading.id, 1)
    await client.commit(reading.id, 2)
    await client.messages(reading.id, 3)
    late = await client.subscribe("t", credit=10)
    await client.messages(late.id, 1, 3)
    before = await client.subscribe("t", start=OFFSET, value=2, credit=10)
    await client.event(DELETIONS_MISSED, before.id)
    await client.messages(before.id, 3)
    await client.nothing_arrives()


# ------------------------------------------------------------------------------- following topics


async def follower_of(connect, credit=1000):
    """A connection that follows topics, and its subscription; skips what a broker may leave out."""
    client = await connect(features=TABLES)
    answer = await client.request(SUBSCRIBE, subscribe(TOPICS, credit=credit))
    if answer.kind == ERROR:
        check_error(answer, INVALID_FIELD, field="topic", request_type=SUBSCRIBE)
        pytest.skip("this broker has no table of topics")
    return client, answer.id


async def told(client, reading, count):
    """What that many records tell: offset, name and record."""
    found = []
    while len(found) < count:
        messages = (await client.event(MESSAGES, reading)).messages
        found += [(offset, name.decode(), json.loads(record)) for offset, name, record in messages]
    assert len(found) == count
    return found


async def test_follow_tells_of_topics_that_are_there_come_and_go(connect, client):
    there = await client.create("there")
    follower, reading = await follower_of(connect)
    assert await told(follower, reading, 1) == [
        (0, "there", {"epoch": there.epoch, "earlier": 0}),
    ]
    await client.publish("used", b"x")
    ((_, name, record),) = await told(follower, reading, 1)
    assert (name, record["earlier"]) == ("used", 0)
    await client.ok(DELETE, delete("there"))
    assert await told(follower, reading, 1) == [
        (2, "there", {"epoch": there.epoch, "earlier": 0, "gone": True}),
    ]
    again = await client.create("there")
    record = {"epoch": again.epoch, "earlier": 1, "first": there.epoch}
    assert await told(follower, reading, 1) == [(3, "there", record)]
    late = await follower.subscribe(TOPICS, credit=1000)
    assert [offset for offset, _, _ in await told(follower, late.id, 2)] == [1, 3]


async def test_follow_writes_a_record_as_json_in_the_written_order(connect, client):
    topic = await client.create("t")
    follower, reading = await follower_of(connect)
    await follower.event(MESSAGES, reading)
    await client.ok(DELETE, delete("t"))
    ((_, _, payload),) = (await follower.event(MESSAGES, reading)).messages
    assert list(json.loads(payload).items()) == [
        ("epoch", topic.epoch),
        ("earlier", 0),
        ("gone", True),
    ]


async def test_follow_is_written_by_the_broker_alone(connect):
    client, _ = await follower_of(connect)
    record = publish(TOPICS, [(b"t", b"{}")])
    for kind, body in [(CREATE, create(TOPICS)), (PUBLISH, record), (DELETE, delete(TOPICS))]:
        await client.refused(INVALID_FIELD, kind, body, field="topic")
    old = subscribe(TOPICS, epoch=1)
    await client.refused(EPOCH_CHANGED, SUBSCRIBE, old, field="epoch")


async def test_follow_is_not_for_clients_that_do_not_know_tables(connect):
    await follower_of(connect)
    client = await connect()
    await client.refused(UNSUPPORTED, SUBSCRIBE, subscribe(TOPICS), field="topic")


async def test_follow_forgets_topics_that_went_a_day_ago(connect, client, broker):
    follower, slow = await follower_of(connect, credit=1)
    await client.create("a")
    await told(follower, slow, 1)
    await client.ok(DELETE, delete("a"))
    await client.create("b")
    broker.advance(86_399)
    await broker.sweep()
    late = await connect(features=TABLES)
    reading = await late.subscribe(TOPICS, credit=9)
    assert [name for _, name, _ in await told(late, reading.id, 2)] == ["a", "b"]
    broker.advance(1)
    await broker.sweep()
    await follower.commit(slow, 1)
    assert (await follower.event(DELETIONS_MISSED, slow)).below == 2
    assert [name for _, name, _ in await told(follower, slow, 1)] == ["b"]
    await client.create("a")
    await follower.commit(slow, 3)
    ((_, name, record),) = await told(follower, slow, 1)
    assert (name, record["earlier"]) == ("a", 0)


async def test_follow_has_new_topics_wait_for_ten_seconds(connect, client, broker):
    await client.create("before", {TTL: 0})
    await follower_of(connect)
    await client.publish("before", b"0")
    await client.publish("new", b"0", b"1")
    broker.advance(9.9)
    await broker.sweep()
    reading = await client.subscribe("new", start=OFFSET, value=0, credit=9)
    assert await client.messages(reading.id, 0, 1) == [b"0", b"1"]
    await client.unsubscribe(reading.id)
    reading = await client.subscribe("before", start=OFFSET, value=0, credit=9)
    await client.lagged(reading.id, 0, 1)
    broker.advance(0.1)
    await broker.sweep()
    reading = await client.subscribe("new", start=OFFSET, value=0, credit=9)
    await client.lagged(reading.id, 0, 2)


async def can_delete(client):
    """Skips the test of a broker that leaves Delete out."""
    answer = await client.request(DELETE, delete("nothing"))
    if answer.code == UNSUPPORTED:
        pytest.skip("this broker does not delete topics")
    check_error(answer, NO_SUCH_TOPIC, field="topic", request_type=DELETE)


async def test_deleted_topic_is_gone_and_its_readers_are_told(client, connect, broker):
    await can_delete(client)
    reader = await connect()
    old = await client.create("t", KEEP)
    reading = await reader.subscribe("t", credit=1)
    await client.publish("t", b"0", b"1")
    await reader.messages(reading.id, 0)
    assert (await client.ok(DELETE, delete("t"))).kind == DELETED
    ended = await reader.event(ENDED, reading.id)
    assert (ended.kind, ended.code, ended.next) == (ENDED, 4, 1)
    new = await client.create("t", KEEP)
    assert (new.created, new.epoch) == (1, old.epoch + 1), "the clock stands still"
    assert (await client.publish("t", b"2")).subscribers == 0
    assert await reader.commit(reading.id, 1) == 1
    await reader.nothing_arrives()


async def test_what_cannot_be_deleted_stays(client):
    await can_delete(client)
    topic = await client.create("t", KEEP)
    await client.publish("t", b"0")
    await client.refused(EPOCH_CHANGED, DELETE, delete("t", topic.epoch + 1))
    await client.refused(NOT_EMPTY, DELETE, delete("t"), flags=IF_EMPTY)
    for name in ("", "$t", "$journal/t", "n" * 201):
        await client.refused(INVALID_FIELD, DELETE, delete(name), field="topic")
    await client.refused(UNSUPPORTED, DELETE, delete("t"), flags=0x02, field="flags")
    assert await client.next_offset("t") == 1
    await client.ok(DELETE, delete("t", topic.epoch))
    await client.create("t")
    await client.ok(DELETE, delete("t"), flags=IF_EMPTY)


async def test_connection_is_ended_by_another(connect):
    operator, other = await connect(), await connect()
    answer = await operator.request(DESCRIBE, describe(kind=3, limit=9))
    if answer.kind != DESCRIBED:
        pytest.skip("this broker does not tell its connections")
    first, second = (state["connection"] for state in json.loads(answer.json)["connections"])
    for number in (first, 0, 2**64 - 1):
        await operator.refused(INVALID_FIELD, DISCONNECT, disconnect(number), field="connection")
    assert (await operator.ok(DISCONNECT, disconnect(second))).kind == DISCONNECTED
    away = await other.read()
    assert (away.kind, away.id, away.code) == (GO_AWAY, 0, 2)
    await other.ends()
    await operator.ping()


async def test_the_clock_is_moved_forward_only(client):
    answer = await client.request(ADVANCE_CLOCK, advance_clock(0))
    if (answer.code, answer.field) == (UNSUPPORTED, "type"):
        pytest.skip("the clock of this broker moves by itself")
    check_error(answer, INVALID_FIELD, field="to_us")
    epoch = (await client.create("t", {TTL: 3_600_000})).epoch
    await client.publish("t", b"x")
    for _ in range(2):
        assert (
            await client.ok(ADVANCE_CLOCK, advance_clock(epoch + 7_200_000_000))
        ).kind == CLOCK_ADVANCED
    await client.refused(INVALID_FIELD, ADVANCE_CLOCK, advance_clock(epoch), field="to_us")
    assert (await client.request(SUBSCRIBE, subscribe("t"))).start == 1
    assert (await client.create("later")).epoch == epoch + 7_200_000_000


async def test_credit_may_be_max_credit_and_no_more(client):
    most = client.welcome.max_credit
    await client.subscribe("t", credit=most, credit_bytes=2**32 - 1)
    if most < 2**32 - 1:
        await client.refused(
            INVALID_FIELD, SUBSCRIBE, subscribe("t", credit=most + 1), field="credit"
        )


# --------------------------------------------------------------------------------------- credit,
# commits


async def test_no_more_than_credit_is_in_flight(client):
    """A batch is cut to fit; each commit lets as many in as it settles."""
    await client.create("t", KEEP)
    reading = await client.subscribe("t", credit=2)
    await client.publish("t", *[b"%d" % i for i in range(5)])
    await client.publish("t", b"5")
    await client.messages(reading.id, 0, 1)
    await client.nothing_arrives()
    assert await client.commit(reading.id, 1) == 1
    await client.messages(reading.id, 2)
    await client.nothing_arrives()
    assert await client.commit(reading.id, 3) == 3
    await client.messages(reading.id, 3, 4)
    await client.nothing_arrives()
    assert await client.commit(reading.id, 5) == 5
    assert await client.messages(reading.id, 5) == [b"5"]
    await client.nothing_arrives()


async def test_commit_settles_everything_below(client):
    """What is settled already stays so; what was not delivered cannot be settled; neither gives
    credit.
    """
    await client.create("t", KEEP)
    reading = await client.subscribe("t", credit=3)
    await client.publish("t", *[b"%d" % i for i in range(10)])
    await client.messages(reading.id, 0, 1, 2)
    await client.refused(NOT_IN_FLIGHT, COMMIT, commit(reading.id, 4))
    await client.refused(NOT_IN_FLIGHT, COMMIT, commit(reading.id, 2**64 - 1))
    assert await client.commit(reading.id, 0) == 0
    await client.nothing_arrives()
    assert await client.commit(reading.id, 2) == 2
    await client.messages(reading.id, 3, 4)
    for following in (2, 1, 0):
        assert await client.commit(reading.id, following) == 2
    await client.nothing_arrives()
    await client.refused(NOT_IN_FLIGHT, COMMIT, commit(reading.id, 6), request_id=0)
    assert await client.commit(reading.id, 5) == 5
    await client.messages(reading.id, 5, 6, 7)
    await client.nothing_arrives()


async def test_commit_with_nothing_in_flight_gives_no_credit(client):
    await client.create("t", KEEP)
    await client.publish("t", b"0", b"1")
    reading = await client.subscribe("t", start=LATEST, credit=1)
    for following in (2, 1, 0, 2):
        assert await client.commit(reading.id, following) == 2
    await client.refused(NOT_IN_FLIGHT, COMMIT, commit(reading.id, 3))
    await client.publish("t", b"2", b"3", b"4")
    await client.messages(reading.id, 2)
    await client.nothing_arrives()


async def test_commit_never_reaches_a_later_subscription(client):
    """To unsubscribe and subscribe again around a commit gives no message more than credit."""
    await client.create("t", KEEP)
    first = await client.subscribe("t", credit=1)
    await client.publish("t", b"0", b"1", b"2")
    await client.messages(first.id, 0)
    leave, again, settle = (next(client.ids) for _ in range(3))
    await client.send(
        frame(UNSUBSCRIBE, leave, unsubscribe(first.id)),
        frame(SUBSCRIBE, again, subscribe("t", start=OFFSET, value=1, credit=1)),
        frame(COMMIT, settle, commit(first.id, 1)),
    )
    await client.reply(leave)
    assert (await client.reply(again)).start == 1
    check_error(await client.reply(settle), NO_SUCH_SUBSCRIPTION, request_type=COMMIT)
    await client.messages(again, 1)
    await client.nothing_arrives()


async def test_commit_of_a_strangers_subscription_is_refused(client, connect):
    other = await connect()
    reading = await client.subscribe("t", credit=1)
    await other.publish("t", b"0", b"1")
    await client.messages(reading.id, 0)
    for following in (0, 1):
        await other.refused(NO_SUCH_SUBSCRIPTION, COMMIT, commit(reading.id, following))
    await other.refused(NO_SUCH_SUBSCRIPTION, UNSUBSCRIBE, unsubscribe(reading.id))
    await client.nothing_arrives()


@pytest.mark.parametrize(
    ("credit_bytes", "fit"), [(1, 1), (10, 1), (19, 1), (20, 2), (29, 2), (30, 3), (31, 3)]
)
async def test_no_more_than_credit_bytes_are_in_flight(client, credit_bytes, fit):
    """Keys and payloads count, and are settled when all of the frame that brought them is."""
    await client.create("t", KEEP)
    reading = await client.subscribe("t", credit_bytes=credit_bytes)
    await client.publish("t", *[(b"key", b"payload")] * 12)
    frames, following = (
        [],
        0,
    )  # of each frame in flight, the offset that follows it and its messages

    async def receive(count):
        nonlocal following
        while count:
            event = await client.event(MESSAGES, reading.id)
            assert event.base == following
            following += len(event.messages)
            count -= len(event.messages)
            assert count >= 0
            frames.append((following, len(event.messages)))
        await client.nothing_arrives()

    await receive(fit)
    for settled in range(1, 13):
        await client.commit(reading.id, settled)
        frames = [(end, size) for end, size in frames if end > settled]
        await receive(min(fit - sum(size for _, size in frames), 12 - following))
    assert following == 12


async def test_one_message_of_any_size_may_be_in_flight(client):
    """However small credit_bytes is, a reader never waits for ever; empty messages cost nothing."""
    await client.create("t", KEEP)
    reading = await client.subscribe("t", credit_bytes=1)
    await client.publish("t", b"x" * 100, b"y" * 1000, b"", b"", b"z", b"w")
    assert await client.messages(reading.id, 0) == [b"x" * 100]
    await client.nothing_arrives()
    await client.commit(reading.id, 1)
    assert await client.messages(reading.id, 1) == [b"y" * 1000]
    await client.nothing_arrives()
    await client.commit(reading.id, 2)
    assert await client.messages(reading.id, 2, 3, 4) == [b"", b"", b"z"]
    await client.nothing_arrives()
    await client.commit(reading.id, 5)
    assert await client.messages(reading.id, 5) == [b"w"]


# --------------------------------------------------------------------------------------------------
# lag


async def test_reader_without_credit_hears_of_its_lag_when_it_commits(client):
    """Exactly what is missing, then the head, and so on: it never goes silent."""
    await client.create("t", KEEP | {CAPACITY: 3})
    reading = await client.subscribe("t", credit=1)
    for i in range(10):
        await client.publish("t", b"%d" % i)
        if not i:
            await client.messages(reading.id, 0)
    await client.nothing_arrives()
    await client.commit(reading.id, 1)
    await client.lagged(reading.id, 1, 7)
    assert await client.messages(reading.id, 7) == [b"7"]
    await client.nothing_arrives()
    for i in range(8, 30):
        await client.commit(reading.id, i)
        assert await client.messages(reading.id, i) == [b"%d" % i]
        await client.publish("t", b"%d" % (i + 2))
    await client.nothing_arrives()
    for _ in range(5):
        await client.publish("t", *[b"x"] * 3)
    await client.commit(reading.id, 30)
    await client.lagged(reading.id, 30, 44)
    await client.messages(reading.id, 44)


async def test_lag_costs_no_credit_and_can_be_committed(client):
    """A commit may name the end of a lag, the next offset to be delivered, but not beyond."""
    await client.create("t", KEEP | {CAPACITY: 2})
    await client.publish("t", b"0", b"1")
    await client.publish("t", b"2", b"3")
    reading = await client.subscribe("t", start=OFFSET, value=0, credit=1)
    await client.lagged(reading.id, 0, 2)
    await client.messages(reading.id, 2)
    await client.refused(NOT_IN_FLIGHT, COMMIT, commit(reading.id, 4))
    assert await client.commit(reading.id, 2) == 2
    await client.nothing_arrives()
    assert await client.commit(reading.id, 3) == 3
    await client.messages(reading.id, 3)


@limits
async def test_oldest_batches_leave_when_bytes_are_short(client):
    """What counts is the whole batch field, and a batch leaves whole."""
    one, two = len(batch([b"x" * 100])), len(batch([b"x" * 100] * 2))
    for topic, room, head in [
        ("exact", one + two, 2),
        ("short", one + two - 1, 4),
        ("roomy", one + 2 * two, 0),
    ]:
        await client.create(topic, KEEP | {MAX_BYTES: room})
        for size in (2, 2, 1):
            await client.publish(topic, *[b"x" * 100] * size)
        reading = await client.subscribe(topic, start=EARLIEST)
        assert reading.start == head
        await client.messages(reading.id, *range(head, 5))


async def test_capacity_cuts_into_batches(client):
    """The oldest messages go, not the oldest batches."""
    await client.create("t", KEEP | {CAPACITY: 5})
    await client.publish("t", *[b"%d" % i for i in range(4)])
    await client.publish("t", *[b"%d" % i for i in range(4, 7)])
    reading = await client.subscribe("t", start=EARLIEST)
    assert reading.start == 2
    assert await client.messages(reading.id, *range(2, 7)) == [b"2", b"3", b"4", b"5", b"6"]


# ------------------------------------------------------------------------------------ until,
# unsubscribe


async def test_subscription_ends_at_until_by_delivery(client):
    """Without needing credit; commits are answered until it is unsubscribed."""
    await client.create("t", KEEP)
    reading = await client.subscribe("t", credit=2, until=2)
    await client.publish("t", *[b"x"] * 5)
    await client.messages(reading.id, 0, 1)
    await client.ended(reading.id, 2)
    await client.nothing_arrives()
    assert await client.commit(reading.id, 1) == 1
    assert await client.commit(reading.id, 2) == 2
    await client.refused(NOT_IN_FLIGHT, COMMIT, commit(reading.id, 3))
    await client.publish("t", b"x")
    await client.nothing_arrives()
    await client.unsubscribe(reading.id)
    await client.refused(NO_SUCH_SUBSCRIPTION, COMMIT, commit(reading.id, 2))


async def test_subscription_ends_at_until_by_lag(client):
    """A Lagged does not go beyond it."""
    await client.create("t", KEEP | {CAPACITY: 2})
    waiting = await client.subscribe("t", credit=1, until=5)
    await client.publish("t", b"0")
    await client.messages(waiting.id, 0)
    for _ in range(9):
        await client.publish("t", b"x")
    await client.nothing_arrives()
    await client.commit(waiting.id, 1)
    await client.lagged(waiting.id, 1, 5)
    await client.ended(waiting.id, 5)
    late = await client.subscribe("t", start=OFFSET, value=3, until=8)
    await client.lagged(late.id, 3, 8)
    await client.ended(late.id, 8)
    partly = await client.subscribe("t", start=OFFSET, value=3, until=9)
    await client.lagged(partly.id, 3, 8)
    await client.messages(partly.id, 8)
    await client.ended(partly.id, 9)
    await client.nothing_arrives()


async def test_until_at_or_below_the_start_ends_at_once(client):
    await client.create("t", KEEP)
    await client.publish("t", b"0", b"1", b"2")
    for start, value, until in [(LATEST, 0, 3), (LATEST, 0, 0), (EARLIEST, 0, 0), (OFFSET, 2, 1)]:
        reading = await client.subscribe("t", start=start, value=value, until=until)
        await client.ended(reading.id, reading.start)
        await client.unsubscribe(reading.id)
    await client.nothing_arrives()


async def test_nothing_follows_unsubscribed(client, connect):
    """However much was on its way; and the id is then unknown."""
    other = await connect()
    for _ in range(10):
        reading = await client.subscribe("t")
        await other.send(*[frame(PUBLISH, 0, publish("t", [b"x"]))] * 50)
        await client.unsubscribe(reading.id)
        client.events.clear()
        await other.ping()
        await client.nothing_arrives()
        await client.refused(NO_SUCH_SUBSCRIPTION, UNSUBSCRIBE, unsubscribe(reading.id))
        await client.refused(NO_SUCH_SUBSCRIPTION, COMMIT, commit(reading.id, 0))


async def test_forget_changes_nothing_for_an_anonymous_subscription(client):
    reading = await client.subscribe("t")
    await client.ok(UNSUBSCRIBE, unsubscribe(reading.id), flags=0x01)
    assert (await client.publish("t", b"x")).subscribers == 0


async def test_two_subscriptions_to_one_topic_are_independent(client):
    """Each has its own start, credit and commits, and may end without the other."""
    await client.create("t", KEEP)
    await client.publish("t", b"0", b"1", b"2")
    slow = await client.subscribe("t", credit=1)
    await client.messages(slow.id, 0)
    fast = await client.subscribe("t", start=OFFSET, value=1)
    await client.messages(fast.id, 1, 2)
    assert await client.commit(fast.id, 3) == 3
    await client.nothing_arrives()
    assert await client.commit(slow.id, 1) == 1
    await client.messages(slow.id, 1)
    assert (await client.publish("t", b"3")).subscribers == 2
    await client.messages(fast.id, 3)
    await client.unsubscribe(fast.id)
    await client.commit(slow.id, 2)
    await client.messages(slow.id, 2)
    await client.commit(slow.id, 3)
    assert await client.messages(slow.id, 3) == [b"3"]


async def test_many_subscriptions_of_one_connection_all_get_everything(client):
    readings = [(await client.subscribe(f"t{i % 3}", start=LATEST)).id for i in range(30)]
    for i in range(3):
        assert (await client.publish(f"t{i}", b"x", b"y")).subscribers == 10
    got = {reading: [] for reading in readings}
    while sum(map(len, got.values())) < 60:
        event = client.events.popleft() if client.events else await client.read()
        got[event.id] += [offset for offset, _, _ in event.messages]
    assert list(got.values()) == [[0, 1]] * 30


# -------------------------------------------------------------------------------------------------
# ends


async def test_close_answers_everything_and_closed_is_last(client, connect):
    other = await connect()
    await client.send(
        frame(SUBSCRIBE, 1, subscribe("t", start=LATEST)),
        *(frame(PUBLISH, 2 + i, publish("t", [b"x"])) for i in range(50)),
        frame(CLOSE, 100),
    )
    assert (await client.reply(1)).kind == SUBSCRIBED
    assert [(await client.reply(2 + i)).first_offset for i in range(50)] == list(range(50))
    assert (await client.reply(100)).kind == CLOSED
    client.events.clear()
    await client.ends()
    answer = await other.publish("t", b"x")
    assert (answer.first_offset, answer.subscribers) == (50, 0)


async def test_frames_after_close_are_ignored(client, connect):
    """Whether they are good, bad, or no frames at all."""
    other = await connect()
    await client.send(
        frame(CLOSE, 1),
        frame(PUBLISH, 2, publish("t", [b"x"])),
        frame(PING, 3, zero=1),
        b"\xff" * 100_000,
    )
    assert (await client.reply(1)).kind == CLOSED
    await client.ends()
    assert (await other.publish("t", b"x")).first_offset == 0


async def test_end_of_stream_is_a_close_without_closed(client, connect):
    """Everything received before is carried out and answered."""
    other = await connect()
    await client.send(
        frame(SUBSCRIBE, 1, subscribe("t")),
        frame(PUBLISH, 2, publish("t", [b"x"])),
        frame(PING, 3, ping()),
    )
    await client.end()
    replies = [received for received in await client.rest() if not received.is_event]
    assert [(reply.id, reply.kind) for reply in replies] == [
        (1, SUBSCRIBED),
        (2, PUBLISHED),
        (3, PONG),
    ]
    answer = await other.publish("t", b"x")
    assert (answer.first_offset, answer.subscribers) == (1, 0)


async def test_half_a_frame_at_the_end_is_not_carried_out(client, connect):
    """The text does not say whether it is answered."""
    other = await connect()
    await client.send(frame(PING, 1, ping()), frame(PUBLISH, 2, publish("t", [b"half"]))[:-1])
    await client.end()
    kinds = [received.kind for received in await client.rest()]
    assert kinds in ([PONG], [PONG, ERROR])
    assert (await other.publish("t", b"x")).first_offset == 0


async def test_connection_that_breaks_off_takes_its_subscriptions_along(client, connect):
    leaving = await connect()
    await leaving.subscribe("t", credit=1)
    await leaving.aclose()
    with anyio.fail_after(20):
        while (await client.publish("t", b"x")).subscribers:
            pass


async def test_empty_connections_harm_nobody(client, dial):
    """Who connects and leaves, with or without a few bytes, is not noticed."""
    for data in (b"", b"\x21", frame(HELLO, 1, hello())[:-1]):
        visitor = await dial()
        await visitor.send(data)
        await visitor.aclose()
        await client.ping()


# ----------------------------------------------------------------------------------------------
# pressure


@pytest.mark.parametrize("capacity", [1000, 50, 1])
async def test_who_publishes_to_itself_without_reading_is_not_stuck(client, capacity):
    """Four hundred large messages are sent before the first reply is read; each arrives or is told
    as lost.
    """
    count, size = 400, min(65_536, client.welcome.max_message)
    await client.create("t", KEEP | {CAPACITY: capacity})
    reading = await client.subscribe("t", credit=count, credit_bytes=2**32 - 1)
    with anyio.fail_after(30):
        for i in range(count):
            payload = struct.pack("<I", i) + bytes(size - 4)
            await client.stream.send(frame(PUBLISH, 1000 + i, publish("t", [payload])))
    following, published = 0, 0
    while following < count or published < count:
        received = await client.read()
        if received.kind == PUBLISHED:
            assert (received.id, received.first_offset) == (1000 + published, published)
            published += 1
        elif received.kind == LAGGED:
            assert received.id == reading.id
            assert received.from_offset == following < received.to_offset < count
            following = received.to_offset
        else:
            assert (received.kind, received.id) == (MESSAGES, reading.id)
            assert received.base == following < published
            for _, _, payload in received.messages:
                assert payload == struct.pack("<I", following) + bytes(size - 4)
                following += 1
    assert following == published == count
    await client.nothing_arrives()


async def test_nobody_notices_a_reader_that_does_not_read(client, connect):
    """The others publish and receive as if it were not there."""
    stuck, reader = await connect(), await connect()
    size = min(65_536, client.welcome.max_message)
    await client.create("t", KEEP)
    for each in (stuck, reader):
        reading = await each.subscribe("t", credit_bytes=2**32 - 1)
    for i in range(300):
        assert (await client.publish("t", bytes(size))).subscribers == 2
        await reader.messages(reading.id, i)


async def test_two_publishers_and_a_reader_agree_on_the_order(client, connect):
    """Each publisher's messages arrive in its order, under the offsets it was told."""
    reading = await client.subscribe(
        "t", credit=2000 if client.welcome.max_credit >= 2000 else 1000
    )
    told = {}

    async def talk(name):
        talker = await connect()
        await talker.send(
            *(frame(PUBLISH, i, publish("t", [b"%s%d" % (name, i)] * 2)) for i in range(1, 101))
        )
        for i in range(1, 101):
            told[(await talker.reply(i)).first_offset] = b"%s%d" % (name, i)

    async with anyio.create_task_group() as tasks:
        for name in (b"a", b"b"):
            tasks.start_soon(talk, name)
    assert sorted(told) == list(range(0, 400, 2))
    got = await client.messages(reading.id, *range(400))
    assert got == [told[offset // 2 * 2] for offset in range(400)]


# ---------------------------------------------------------------------------------- shared names


class Worker:
    """A subscription to a shared name, on a connection of its own."""

    def __init__(self, client, subscription):
        self.client = client
        self.id = subscription.id
        self.subscribed = subscription

    async def next(self):
        """The next frame of messages: the offset of the first, its ticket, and which delivery."""
        found = await self.client.event(MESSAGES, self.id)
        assert found.flags & TICKETS
        return found

    async def settle(self, outcome, *tickets, delay_ms=None, reason=""):
        """Settle; the tickets that are late."""
        body = settle(self.id, outcome, tickets, delay_ms=delay_ms, reason=reason)
        flags = 0 if delay_ms is None else DELAYED
        return (await self.client.ok(SETTLE, body, flags=flags)).late

    async def refused(self, code, field, outcome, *tickets, flags=0, **how):
        body = settle(self.id, outcome, tickets, **how)
        await self.client.refused(code, SETTLE, body, field=field, flags=flags)


async def sharing(connect, features=SHARED_NAMES):
    """A connection that knows shared names; skips what a broker may leave out."""
    client = await connect(features=features)
    if client.welcome.features != features:
        pytest.skip("this broker has no shared names, or no tables")
    return client


@pytest.fixture
async def work(connect):
    """Begin a worker of `t`, under the name `n`; skips what a broker may leave out."""

    async def work(*, client=None, flags=SHARED, topic="t", name="n", **how):
        if client is None:
            client = await sharing(connect)
        if "owner" in how:
            flags |= OWNED
        answer = await client.ok(SUBSCRIBE, shared(topic, name, **how), flags=flags)
        return Worker(client, answer)

    return work


@pytest.fixture
async def jobs(connect, work):
    """Publish so many jobs to `t`, which keeps them; a client that can look at the dead."""

    async def jobs(count, *, keys=()):
        client = await sharing(connect)
        await client.create("t", KEEP)
        messages = [b"%d" % number for number in range(count)]
        if keys:
            messages = list(zip(keys, messages, strict=True))
        await client.publish("t", *messages)
        return client

    return jobs


async def listed(client, *, topic="t", name="n", **how):
    """The dead of a name: what is told of each."""
    answer = await client.ok(DEAD, dead(topic, name, **how))
    return json.loads(answer.json)["dead"]


async def test_a_message_of_a_shared_name_is_worked_to_done(jobs, work):
    await jobs(2)
    worker = await work()
    first = await worker.next()
    assert (first.base, first.number, first.flags) == (0, 1, TICKETS)
    await worker.client.nothing_arrives()
    assert await worker.settle(DONE, first.ticket) == []
    second = await worker.next()
    assert second.base == 1
    assert second.ticket > first.ticket
    await worker.settle(DONE, second.ticket)
    await worker.client.nothing_arrives()


async def test_a_message_that_failed_comes_again(jobs, work):
    """At once if that is asked for, and marked with which delivery it is."""
    await jobs(1)
    worker = await work()
    first = await worker.next()
    await worker.settle(RETRY, first.ticket, delay_ms=0, reason="no luck")
    again = await worker.next()
    assert (again.base, again.number, again.flags) == (0, 2, TICKETS | REDELIVERED)
    assert again.ticket > first.ticket


async def test_a_message_that_fails_too_often_is_dead(jobs, work):
    client = await jobs(2)
    worker = await work(max_deliveries=2)
    await worker.settle(RETRY, (await worker.next()).ticket, delay_ms=0)
    await worker.settle(RETRY, (await worker.next()).ticket, delay_ms=0, reason="broken")
    assert (await worker.next()).base == 1
    (row,) = await listed(client)
    assert (row["offset"], row["deliveries"], row["reason"]) == (0, 2, "broken")
    assert row["is_readable"]


async def test_settling_what_is_not_open_is_late_and_changes_nothing(jobs, work):
    """Twice, another's, and numbers that were never tickets."""
    client = await jobs(3)
    worker, other = await work(), await work()
    first, second = await worker.next(), await other.next()
    await worker.settle(DONE, first.ticket)
    third = await worker.next()
    nobodys = [0, 1, third.ticket + 1, 2**64 - 1]
    late = [first.ticket, second.ticket, *nobodys]
    assert await worker.settle(REJECT, *late) == late
    assert await worker.settle(EXTEND, *late, delay_ms=1) == late
    assert await other.settle(DONE, second.ticket) == []
    assert await worker.settle(DONE, third.ticket, third.ticket) == [third.ticket]
    assert await listed(client) == []
    await worker.client.nothing_arrives()


async def test_settling_after_the_time_out_is_late(broker, jobs, work):
    """The message has come again, in a hand of its own, and counts (SHR-4)."""
    await jobs(2)
    slow = await work(timeout_ms=1000)
    first = await slow.next()
    broker.advance(1)
    await broker.sweep()
    quick = await work(timeout_ms=0)
    again = await quick.next()
    assert (again.base, again.number, again.flags) == (0, 2, TICKETS | REDELIVERED)
    # It uses the credit of the one that still works on it.
    await slow.client.nothing_arrives()
    assert await slow.settle(DONE, first.ticket) == [first.ticket]
    assert (await slow.next()).base == 1
    assert await quick.settle(DONE, again.ticket) == []


async def test_extending_gives_more_time(broker, jobs, work):
    await jobs(1)
    worker = await work(timeout_ms=1000)
    first = await worker.next()
    assert await worker.settle(EXTEND, first.ticket, delay_ms=2000) == []
    broker.advance(1)
    await broker.sweep()
    assert await worker.settle(DONE, first.ticket) == []


@pytest.mark.parametrize(
    ("field", "how"),
    [
        ("outcome", {"outcome": 7}),
        ("outcome", {"outcome": 255}),
        ("reason", {"outcome": RETRY, "reason": "r" * 1025}),
        ("reason", {"outcome": DONE, "reason": "é" * 513}),
        ("delay_ms", {"outcome": RETRY, "delay_ms": 30 * 86_400_000 + 1}),
        ("delay_ms", {"outcome": RETRY, "delay_ms": 2**64 - 1}),
        ("delay_ms", {"outcome": EXTEND}),
        ("delay_ms", {"outcome": EXTEND, "delay_ms": 0}),
        ("delay_ms", {"outcome": EXTEND, "delay_ms": 86_400_001}),
    ],
)
async def test_settling_out_of_bounds_settles_nothing(jobs, work, field, how):
    await jobs(1)
    worker = await work()
    first = await worker.next()
    flags = DELAYED if "delay_ms" in how else 0
    others = {name: value for name, value in how.items() if name != "outcome"}
    await worker.refused(INVALID_FIELD, field, how["outcome"], first.ticket, flags=flags, **others)
    assert await worker.settle(DONE, first.ticket) == []


async def test_a_reason_is_not_longer_than_a_text_can_be(jobs, work):
    """70,000 bytes have no length: the frame ends inside its reason, or goes on after it."""
    await jobs(1)
    worker = await work()
    await worker.next()
    body = struct.pack("<IBH", worker.id, RETRY, 70_000 - 65_536) + b"r" * 70_000
    await worker.client.refused_for_good(MALFORMED, frame(SETTLE, 99, body))


async def test_a_request_names_no_more_than_a_batch_may_have(jobs, work):
    client = await jobs(1)
    most = client.welcome.max_batch
    worker = await work()
    first = await worker.next()
    many = [*range(1, most + 1), first.ticket]
    await worker.refused(INVALID_FIELD, "tickets", DONE, *many)
    assert len(await worker.settle(DONE, *many[1:])) == most - 1
    body = dead("t", "n", offsets=range(most + 1))
    await client.refused(INVALID_FIELD, DEAD, body, flags=SELECTED, field="offsets")
    body = shared("t", "n", tickets=range(most + 1))
    await client.refused(INVALID_FIELD, SUBSCRIBE, body, flags=SHARED, field="tickets")


async def test_a_delay_that_does_not_matter_is_not_looked_at(jobs, work):
    await jobs(1)
    worker = await work()
    first = await worker.next()
    assert await worker.settle(DONE, first.ticket, delay_ms=2**64 - 1) == []


async def test_what_is_delayed_comes_when_its_time_has_come(broker, jobs, work):
    await jobs(2)
    worker = await work()
    await worker.settle(RETRY, (await worker.next()).ticket, delay_ms=2000)
    second = await worker.next()
    assert second.base == 1
    await worker.settle(DONE, second.ticket)
    broker.advance(1)
    await broker.sweep()
    await worker.client.nothing_arrives()
    broker.advance(1)
    await broker.sweep()
    assert (await worker.next()).base == 0


async def test_what_is_released_was_not_delivered_and_comes_at_once(jobs, work):
    await jobs(1)
    worker = await work(max_deliveries=1)
    await worker.settle(RELEASE, (await worker.next()).ticket)
    again = await worker.next()
    assert (again.number, again.flags & REDELIVERED) == (1, REDELIVERED)


async def test_what_is_rejected_is_dead_at_once(jobs, work):
    client = await jobs(1)
    worker = await work(max_deliveries=0)
    await worker.settle(REJECT, (await worker.next()).ticket, reason="no such image")
    (row,) = await listed(client)
    assert (row["offset"], row["deliveries"], row["reason"]) == (0, 1, "no such image")


async def test_messages_are_shared_among_those_with_credit(jobs, work):
    """Each has what its credit allows, and none has what another one has."""
    await jobs(10)
    workers = [await work(credit=credit) for credit in (1, 2, 3)]
    offsets = []
    for worker, credit in zip(workers, (1, 2, 3), strict=True):
        count = 0
        while count < credit:
            found = await worker.next()
            offsets += [offset for offset, _, _ in found.messages]
            count += len(found.messages)
        assert count == credit
        await worker.client.nothing_arrives()
    assert sorted(offsets) == list(range(6))


async def test_bytes_are_credit_as_well(connect, work):
    client = await sharing(connect)
    await client.create("t", KEEP)
    await client.publish("t", b"x" * 60)
    await client.publish("t", b"y" * 60)
    worker = await work(credit=10, credit_bytes=100)
    first = await worker.next()
    await worker.client.nothing_arrives()
    await worker.settle(DONE, first.ticket)
    assert (await worker.next()).base == 1


async def test_a_frame_is_settled_ticket_by_ticket(jobs, work):
    """The tickets of a frame follow one another."""
    await jobs(3)
    worker = await work(credit=3)
    found = await worker.next()
    assert len(found.messages) == 3
    await worker.settle(DONE, found.ticket, found.ticket + 2)
    await worker.settle(RETRY, found.ticket + 1, delay_ms=0)
    assert (await worker.next()).base == 1


async def test_a_worker_that_leaves_releases_what_it_has(jobs, work):
    """By Unsubscribe, or by Close."""
    await jobs(2)
    leaving, closing = await work(), await work()
    assert (await leaving.next()).base == 0
    assert (await closing.next()).base == 1
    heir = await work(credit=5)
    await leaving.client.unsubscribe(leaving.id)
    first = await heir.next()
    assert (first.base, first.number, first.flags & REDELIVERED) == (0, 1, REDELIVERED)
    await closing.client.ok(CLOSE)
    assert (await heir.next()).base == 1


async def test_a_lost_connection_has_two_seconds(broker, jobs, work):
    """Then what it had is lost, and, alone in its hand, it counts (SHR-4a, SHR-6)."""
    client = await jobs(1)
    worker = await work(owner=7, max_deliveries=1)
    await worker.next()
    await worker.client.aclose()
    heir = await work(max_deliveries=1)
    await until_lost(client)
    await heir.client.nothing_arrives()
    for _ in range(3):
        await broker.sweep()
    (row,) = await listed(client)
    assert (row["offset"], row["deliveries"]) == (0, 1)
    assert row["reason"]


async def until_lost(client):
    """The broker has noticed that a connection is lost: one worker is left."""
    while True:
        answer = await client.ok(DESCRIBE, describe(kind=2, limit=100))
        rows = json.loads(answer.json)["subscriptions"]
        if sum(row["connection"] != 0 for row in rows) == 1:
            return


async def test_an_owner_that_comes_back_keeps_what_it_names(jobs, work):
    """What it does not name never reached it, and is released."""
    client = await jobs(3)
    worker = await work(owner=7, credit=2)
    found = await worker.next()
    assert len(found.messages) == 2
    watcher = await work()
    assert (await watcher.next()).base == 2
    await worker.client.aclose()
    await until_lost(client)
    back = await work(owner=7, attempt=2, credit=2, tickets=[found.ticket])
    assert await back.settle(DONE, found.ticket) == []
    again = await back.next()
    assert (again.base, again.number, again.flags & REDELIVERED) == (1, 1, REDELIVERED)


async def test_an_owner_takes_over_from_itself_only(jobs, work):
    await jobs(3)
    worker = await work(owner=7)
    first = await worker.next()
    other = await work(owner=8)
    assert (await other.next()).base == 1
    newer = await work(owner=7, attempt=2, tickets=[first.ticket])
    event = await worker.client.event(ENDED, worker.id)
    assert event.code == 2  # TAKEN_OVER
    assert await worker.settle(DONE, first.ticket) == [first.ticket]
    assert await newer.settle(DONE, first.ticket) == []
    late = shared("t", "n", owner=7, attempt=2)
    await newer.client.refused(
        TAKEN_OVER, SUBSCRIBE, late, flags=SHARED | OWNED, field="attempt", request_id=999
    )


@pytest.mark.parametrize(
    ("field", "flags", "how"),
    [
        ("name", SHARED, {"name": ""}),
        ("until", SHARED, {"until": 5}),
        ("timeout_ms", SHARED, {"timeout_ms": 86_400_001}),
        ("credit", SHARED, {"credit": 0}),
    ],
)
async def test_a_share_out_of_bounds_is_refused(jobs, field, flags, how):
    client = await jobs(1)
    body = shared("t", **{"name": "n"} | how)
    await client.refused(INVALID_FIELD, SUBSCRIBE, body, flags=flags, field=field)


async def test_order_by_key_without_a_shared_name_is_refused(jobs):
    client = await jobs(1)
    body = subscribe("t", name="n")
    await client.refused(INVALID_FIELD, SUBSCRIBE, body, flags=BY_KEY, field="by_key")


async def test_a_name_is_of_one_kind(jobs, work):
    """From its first Subscribe on, also while nobody reads."""
    client = await jobs(1)
    worker = await work()
    body = subscribe("t", name="n")
    await client.refused(INVALID_FIELD, SUBSCRIBE, body, field="name")
    await worker.client.unsubscribe(worker.id)
    await client.refused(INVALID_FIELD, SUBSCRIBE, body, field="name")
    await client.subscribe("t", name="own")
    body = shared("t", "own")
    await client.refused(INVALID_FIELD, SUBSCRIBE, body, flags=SHARED, field="name")


async def test_workers_of_a_name_agree(jobs, work):
    """The first one while nobody reads may change what they agree in (SHR-1)."""
    client = await jobs(1)
    worker = await work(max_deliveries=3)
    body = shared("t", "n", max_deliveries=4)
    await client.refused(INVALID_FIELD, SUBSCRIBE, body, flags=SHARED, field="max_deliveries")
    body = shared("t", "n", max_deliveries=3)
    await client.refused(INVALID_FIELD, SUBSCRIBE, body, flags=SHARED | BY_KEY, field="by_key")
    await worker.client.unsubscribe(worker.id)
    assert (await work(max_deliveries=4)).subscribed.flags == 3  # NAMED, RESUMED


async def test_a_shared_name_does_not_settle_with_commits(jobs, work):
    client = await jobs(1)
    worker = await work()
    await worker.client.refused(
        INVALID_FIELD, COMMIT, commit(worker.id, 1), field="subscription", request_id=50
    )
    alone = await client.subscribe("t", credit=1)
    body = settle(alone.id, DONE, [7])
    await client.refused(INVALID_FIELD, SETTLE, body, field="subscription", request_id=60)
    await client.refused(NO_SUCH_SUBSCRIPTION, SETTLE, settle(77, DONE, []), request_id=61)


async def test_a_shared_name_is_not_forgotten_while_others_read(broker, jobs, work):
    client = await jobs(1)
    worker, other = await work(), await work()
    await worker.client.refused(
        NOT_EMPTY, UNSUBSCRIBE, unsubscribe(worker.id), flags=FORGET, request_id=50
    )
    await client.refused(NOT_EMPTY, DEAD, dead("t", "n", FORGET_NAME))
    await worker.client.unsubscribe(worker.id)
    await other.client.ok(UNSUBSCRIBE, unsubscribe(other.id), flags=FORGET)
    await client.refused(NO_SUCH_NAME, DEAD, dead("t", "n"), field="name")


async def test_a_shared_name_is_not_forgotten_by_time(broker, jobs, work):
    client = await jobs(2)
    worker = await work()
    await worker.settle(DONE, (await worker.next()).ticket)
    await worker.client.unsubscribe(worker.id)
    broker.advance(10 * 86_400)
    for _ in range(3):
        await broker.sweep()
    back = await work()
    assert back.subscribed.committed == 1
    assert (await back.next()).base == 1
    await back.client.unsubscribe(back.id)
    assert (await client.ok(DEAD, dead("t", "n", FORGET_NAME))).done == 1
    await client.refused(NO_SUCH_NAME, DEAD, dead("t", "n", FORGET_NAME), field="name")


async def test_keys_are_in_order_if_that_is_asked_for(jobs, work):
    """One of a key at a time, also across a retry; others go on (SHR-8)."""
    await jobs(5, keys=(b"a", b"a", b"b", b"", b""))
    worker = await work(flags=SHARED | BY_KEY, credit=5)
    found = {}
    for _ in range(4):
        each = await worker.next()
        found[each.base] = each.ticket
    assert set(found) == {0, 2, 3, 4}
    await worker.settle(RETRY, found[0], delay_ms=0)
    again = await worker.next()
    assert again.base == 0
    await worker.client.nothing_arrives()
    await worker.settle(DONE, again.ticket)
    assert (await worker.next()).base == 1


async def test_what_kills_workers_is_tried_alone_and_takes_no_other_with_it(broker, jobs, work):
    """SHR-6: lost in company, none counts; each is tried alone, and one that is done is free."""
    client = await jobs(3)
    worker = await work(credit=3, max_deliveries=1)
    assert len((await worker.next()).messages) == 3
    await worker.client.aclose()
    watcher = await work(credit=3, max_deliveries=1)
    await until_lost(client)
    for _ in range(3):
        await broker.sweep()
    for offset in range(3):
        found = await watcher.next()
        assert [each for each, _, _ in found.messages] == [offset]
        await watcher.client.nothing_arrives()
        await watcher.settle(DONE, found.ticket)
    assert await listed(client) == []


async def test_what_is_gone_before_its_turn_is_told_once(connect, work):
    """To the worker whose turn it was (SHR-7)."""
    client = await sharing(connect)
    await client.create("t", KEEP | {CAPACITY: 2})
    worker = await work()
    await client.publish("t", b"0")
    first = await worker.next()
    for number in (1, 2, 3, 4):
        await client.publish("t", b"%d" % number)
    other = await work()
    await other.client.lagged(other.id, 1, 3)
    found = await other.next()
    assert found.base == 3
    await worker.settle(RETRY, first.ticket, delay_ms=0)
    await worker.client.lagged(worker.id, 0, 1)
    assert (await worker.next()).base == 4
    await worker.client.nothing_arrives()


async def test_what_is_open_or_dead_holds_a_lossless_topic(connect, work):
    """RET-9, SHR-9: until it is settled, or forgotten."""
    client = await sharing(connect)
    await client.create("t", KEEP | {CAPACITY: 2, OVERFLOW: 1})
    worker = await work(credit=2)
    await client.publish("t", b"0", b"1")
    found = await worker.next()
    full = publish("t", [b"2"])
    answer = await client.refused(TOPIC_FULL, PUBLISH, full)
    assert "'n'" in answer.message or "a shared name" in answer.message
    await worker.settle(REJECT, found.ticket)
    await client.refused(TOPIC_FULL, PUBLISH, full)
    assert (await client.ok(DEAD, dead("t", "n", FORGET_DEAD))).done == 1
    await client.publish("t", b"2")


async def test_the_dead_are_listed_by_the_page_revived_and_forgotten(jobs, work):
    client = await jobs(5)
    worker = await work(credit=5, max_deliveries=1)
    found = await worker.next()
    tickets = range(found.ticket, found.ticket + 5)
    await worker.settle(RETRY, *tickets, reason="broken")
    page = await client.ok(DEAD, dead("t", "n", count=2))
    assert [row["offset"] for row in json.loads(page.json)["dead"]] == [0, 1]
    assert (page.more, page.next, page.done) == (1, 2, 0)
    assert [row["offset"] for row in await listed(client, first=page.next)] == [2, 3, 4]
    some = dead("t", "n", REVIVE, offsets=[0, 3, 99])
    assert (await client.ok(DEAD, some, flags=SELECTED)).done == 2
    assert (await client.ok(DEAD, dead("t", "n", FORGET_DEAD, first=4))).done == 1
    again = [await worker.next() for _ in range(2)]
    assert [(each.base, each.number) for each in again] == [(0, 1), (3, 1)]
    assert [row["offset"] for row in await listed(client)] == [1, 2]


async def test_a_dead_message_that_is_gone_cannot_be_revived(connect, work):
    client = await sharing(connect)
    await client.create("t", KEEP | {CAPACITY: 1})
    worker = await work()
    await client.publish("t", b"0")
    await worker.settle(REJECT, (await worker.next()).ticket)
    await client.publish("t", b"1")
    (row,) = await listed(client)
    assert not row["is_readable"]
    assert (await client.ok(DEAD, dead("t", "n", REVIVE))).done == 0
    assert (await client.ok(DEAD, dead("t", "n", FORGET_DEAD))).done == 1


@pytest.mark.parametrize(
    ("code", "field", "body"),
    [
        (INVALID_FIELD, "action", dead("t", "n", 4)),
        (INVALID_FIELD, "count", dead("t", "n", count=0)),
        (NO_SUCH_TOPIC, "topic", dead("elsewhere", "n")),
        (NO_SUCH_NAME, "name", dead("t", "another")),
        (NO_SUCH_NAME, "name", dead("t", "")),
        (NO_SUCH_NAME, "name", dead("t", "alone", FORGET_NAME)),
    ],
)
async def test_looking_at_the_dead_makes_nothing(jobs, work, code, field, body):
    """Neither a topic nor a name, nor is an exclusive name touched (SHR-11)."""
    client = await jobs(1)
    await work()
    await client.subscribe("t", name="alone")
    await client.refused(code, DEAD, body, field=field)
    await client.refused(NO_SUCH_TOPIC, DELETE, delete("elsewhere"))
    answer = await client.ok(DESCRIBE, describe(kind=2, limit=100))
    names = {row["session"] for row in json.loads(answer.json)["subscriptions"]}
    assert names == {"n", "alone"}


async def test_workers_are_told_that_their_topic_is_deleted(jobs, work):
    client = await jobs(2)
    worker = await work()
    first = await worker.next()
    await client.ok(DELETE, delete("t"))
    event = await worker.client.event(ENDED, worker.id)
    assert event.code == 4  # DELETED
    assert await worker.settle(DONE, first.ticket) == [first.ticket]
    await client.refused(NO_SUCH_TOPIC, DEAD, dead("t", "n"))


async def test_a_broker_that_disconnects_a_worker_releases_what_it_has(jobs, work):
    client = await jobs(1)
    worker = await work(max_deliveries=1)
    await worker.next()
    answer = await client.ok(DESCRIBE, describe(kind=2, limit=100))
    rows = json.loads(answer.json)["subscriptions"]
    (number,) = {row["connection"] for row in rows} - {0}
    await client.ok(DISCONNECT, disconnect(number))
    heir = await work(max_deliveries=1)
    assert (await heir.next()).number == 1


async def test_a_table_of_topics_is_no_work(connect):
    client = await sharing(connect, SHARED_NAMES | TABLES)
    body = shared(TOPICS, "n")
    await client.refused(INVALID_FIELD, SUBSCRIBE, body, flags=SHARED, field="topic")


async def test_a_shared_name_of_a_table_passes_what_was_superseded(connect, work):
    client = await sharing(connect, SHARED_NAMES | TABLES)
    await client.create("t", {TABLE: 1})
    await client.publish("t", (b"a", b"0"), (b"b", b"1"), (b"a", b"2"))
    worker = await work(client=client, credit=2)
    found = await worker.next()
    assert [offset for offset, _, _ in found.messages] == [1, 2]
    await client.publish("t", (b"b", b"3"))
    await worker.settle(RETRY, found.ticket, delay_ms=0)
    assert (await worker.next()).base == 3
