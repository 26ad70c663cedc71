"""The dissector for Wireshark, as tshark runs it, beside the project's own decoder."""

import random
import re
import shutil
import ssl
import subprocess
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import cycle
from typing import NamedTuple

import anyio
import pytest
import trustme
from anyio.abc import SocketAttribute
from capture import Capture
from test_document import cog_check
from wire_examples import ALL_FRAMES, GOLDEN, INVALID, ROOT, all_frames, by_name, with_right_length

from dissector import abbreviation, fields
from zaichik.server.running import running_broker
from zaichik_protocol import (
    REQUESTS,
    Batch,
    Commit,
    CreateTopic,
    Error,
    ErrorCode,
    FrameDecoder,
    Hello,
    Messages,
    Ping,
    Pong,
    ProtocolError,
    Publish,
    Published,
    Welcome,
    encode,
)

DISSECTOR = ROOT / "protocol" / "wireshark" / "zaichik.lua"
PAGE = ROOT / "docs" / "understand" / "wireshark.md"
needs_tshark = pytest.mark.skipif(
    shutil.which("tshark") is None, reason="there is no tshark; apt install tshark"
)
pytestmark = pytest.mark.unmeasured

# What tshark puts between the fields of a packet, and between the values of a field: no letters of
# any text here.
FIELD, VALUE = "\x1f", "\x1e"
NAMES = sorted(
    {abbreviation(cls, name) for cls in ALL_FRAMES for name, _, _ in fields(cls)}
    | {f"zaichik.flags.{flag}" for cls in ALL_FRAMES for flag in cls.FLAGS}
    | {f"zaichik.{name}" for name in ("type", "id", "setting", "setting.value", "delta", "item")}
    | {f"zaichik.batch.{name}" for name in ("count", "key", "payload", "payload_length", "offset")}
    | {
        f"zaichik.{name}"
        for name in ("malformed", "refused", "ungreeted", "request_in", "reply_in")
    }
)
HELLO = encode(Hello(1, client="me"))
ODD_TOPIC = "a\n\0\u202eb"  # the last but one would have the next letters go from right to left
WELCOME = next(case for case in GOLDEN if isinstance(case.frame, Welcome))
SAID = b"".join(case.data for case in GOLDEN if not isinstance(case.frame, REQUESTS))  # by a broker
SIZES = (1, 2, 5, 13, 64, len(SAID))  # of the pieces that it comes in


class Row(NamedTuple):
    """What tshark tells of a packet: its number and its line in the list, and the values of every
    field in it.
    """

    number: int
    line: str
    fields: dict[str, list[str]]


def tshark(capture, folder, *options):
    """A row for each packet, by its number."""
    names = ["frame.number", "_ws.lua.error", "_ws.col.Protocol", "_ws.col.Info", *NAMES]
    command = [
        "tshark",
        "-n",
        "-r",
        capture.write(folder / "capture.pcap"),
        "-X",
        f"lua_script:{DISSECTOR}",
    ]
    command += ["-T", "fields", "-E", f"separator={FIELD}", "-E", f"aggregator={VALUE}"]
    command += [word for name in names for word in ("-e", name)]
    result = subprocess.run(
        [*command, *options], capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 0, result.stderr
    assert "Lua" not in result.stderr
    rows = {}
    for line in result.stdout.split("\n")[:-1]:
        number, failure, protocol, text, *values = line.split(FIELD)
        assert failure == ""
        found = {
            name: value.split(VALUE) for name, value in zip(NAMES, values, strict=True) if value
        }
        rows[int(number)] = Row(int(number), f"{protocol} {text}", found)
    return rows


def expected(frame):
    """The fields of a frame that the decoder has read, as tshark should tell them; empty ones it
    leaves out.
    """
    found = {"zaichik.type": [str(frame.TYPE)], "zaichik.id": [str(frame.id)]}
    for flag in frame.FLAGS:
        found[f"zaichik.flags.{flag}"] = [str(int(getattr(frame, flag)))]
    for name, kind, _ in fields(type(frame)):
        found |= expected_field(frame, abbreviation(type(frame), name), kind, getattr(frame, name))
    return {name: values for name, values in found.items() if any(values)}


def expected_field(frame, name, kind, value):
    match kind, value:
        case "batch", Batch():
            deltas = getattr(frame, "deltas", ()) or range(value.count)
            columns = {
                "count": [str(value.count)],
                "key": [key.hex() for key in value.keys() if key],  # noqa: SIM118 (a batch is no dict)
                "payload": [payload.hex() for payload in value.payloads() if payload],
                "payload_length": [str(len(payload)) for payload in value.payloads()],
                "offset": [str(frame.base + delta) for delta in deltas]
                if hasattr(frame, "base")
                else [],
            }
            return {f"zaichik.batch.{column}": values for column, values in columns.items()}
        case "settings", _:
            columns = zip(*value, strict=True) if value else ((), ())
            names = ("zaichik.setting", "zaichik.setting.value")
            return {
                name: [str(item) for item in column]
                for name, column in zip(names, columns, strict=True)
            }
        case (("u64[]" | "u64[] if shared" | "u64[] if selected"), _):
            return {"zaichik.item": [str(number) for number in value]}
        case "u32[] if holes", _:
            return {"zaichik.delta": [str(delta) for delta in value]}
        case "rest", _:
            return {name: [value.hex()]}
        case (("4 bytes" | "json"), _):
            return {name: [value.decode(errors="replace")]}
        case _, int() if " if " in kind:
            is_there = getattr(frame, kind.rpartition(" ")[2])
            return {name: [str(value)] if is_there else []}
        case "secret", _:
            return {}
        case _:
            return {
                name: [str(value).replace("\0", "␀")]
            }  # at a zero, Wireshark would take a text to end


def shown(row):
    """The row's fields, without those that say nothing of the bytes."""
    plain = {"True": "1", "False": "0"}
    nothing = {
        "zaichik.refused",
        "zaichik.request_in",
        "zaichik.reply_in",
        "zaichik.secret",
        "zaichik.settings",
        "zaichik.deltas",
        "zaichik.subscribe.tickets",
        "zaichik.settle.tickets",
        "zaichik.late",
        "zaichik.offsets",
        "zaichik.batch",
    }
    return {
        name: [plain.get(value, value) if ".flags." in name else value for value in values]
        for name, values in row.fields.items()
        if name not in nothing
    }


def end_of(frame):
    return "client" if isinstance(frame, REQUESTS) else "broker"


def opened(capture):
    """A connection whose client has said Hello, to which nothing was answered yet."""
    connection = capture.connection()
    connection.send("client", HELLO)
    return connection


def encrypted(connection, keys, *said):
    """Say something in turns, the client first, over TLS whose keys are kept.

    Returns the numbers of the packets.
    """
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    contexts = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.configure_trust(contexts[0])
    authority.issue_cert("localhost", key_type=trustme.KeyType.ECDSA).configure_cert(contexts[1])
    contexts[0].keylog_filename = str(keys)
    wires = ssl.MemoryBIO(), ssl.MemoryBIO()  # what each end has sent
    ends = (
        contexts[0].wrap_bio(wires[1], wires[0], server_hostname="localhost"),
        contexts[1].wrap_bio(wires[0], wires[1], server_side=True),
    )

    def flush(side):
        """What an end has sent is put into the capture, and stays for the other one."""
        data = wires[side].read()
        wires[side].write(data)
        return connection.send(("client", "broker")[side], data) if data else 0

    for side in (0, 1, 0, 1):
        with suppress(ssl.SSLWantReadError):
            ends[side].do_handshake()
        flush(side)
    numbers = []
    for side, data in zip(cycle((0, 1)), said):
        ends[side].write(data)
        numbers.append(flush(side))
        assert ends[1 - side].read() == data
    return numbers


@pytest.fixture(scope="module")
def shown_together(tmp_path_factory):
    """Rows by what they are of.

    All are of one capture, because starting tshark takes longer than its work.
    """
    capture, numbers = Capture(), {}
    for case in GOLDEN:
        connection = capture.connection() if isinstance(case.frame, Hello) else opened(capture)
        numbers["golden", case.name] = connection.send(end_of(case.frame), case.data, 3, 11)
    for case in INVALID:
        to_client = case.receiver == "client"
        connection = opened(capture) if case.hello_done or to_client else capture.connection()
        numbers["invalid", case.name] = connection.send(
            "broker" if to_client else "client", case.data
        )
    for size in SIZES:
        connection = opened(capture)
        for at in range(0, len(SAID), size):
            numbers["pieces", size, at] = connection.send("broker", SAID[at : at + size])
    numbers |= {
        ("conversation", what): number for what, number in asked_and_answered(opened(capture))
    }
    numbers["port", 9000] = capture.connection(9000).send("client", HELLO)
    numbers["topic", ODD_TOPIC] = opened(capture).send("client", encode(CreateTopic(2, ODD_TOPIC)))
    numbers["late", "Ping"] = capture.connection(from_start=False).send("client", encode(Ping(9)))
    cut = capture.connection(snap=100)
    numbers["cut", "Publish"] = cut.send(
        "client", encode(Publish(5, "t", Batch.of([(b"", b"x" * 100)])))
    )
    folder = tmp_path_factory.mktemp("together")
    numbers["tls", "Hello"], *_ = encrypted(capture.connection(), folder / "keys", HELLO)
    rows = tshark(
        capture, folder, "-2", "-d", "tcp.port==9000,zaichik"
    )  # -2: only so a request can name its reply
    return {which: rows[number] for which, number in numbers.items()}


def asked_and_answered(connection):
    """Sends a conversation. Yields what a packet is, and its number."""
    yield "welcome", connection.send("broker", WELCOME.data)
    yield (
        "asked",
        connection.send(
            "client", encode(Publish(5, "t", Batch.of([(b"", b"x")]))) + encode(Ping(6))
        ),
    )
    yield "silent", connection.send("client", encode(Ping(0)))
    yield "pong", connection.send("broker", encode(Pong(6, 0)))
    refused = Error(5, ErrorCode.TOPIC_FULL, Publish.TYPE, "", 10, "full", retryable=True)
    yield (
        "failed",
        connection.send("broker", encode(refused) + encode(Published(5, 0, 1, 0, 0)), 20),
    )


def test_its_tables_are_those_of_the_declaration():
    result = cog_check(DISSECTOR)
    assert result.returncode == 0, f"run `make docs`\n{result.stdout}{result.stderr}"


@needs_tshark
@pytest.mark.parametrize("golden", GOLDEN, ids=by_name)
def test_a_golden_frame_is_shown_as_the_decoder_reads_it(golden, shown_together):
    row = shown_together["golden", golden.name]
    assert row.line.startswith("zaichik ")
    assert type(golden.frame).__name__ in row.line
    assert shown(row) == expected(golden.frame)


@needs_tshark
@pytest.mark.parametrize("case", INVALID, ids=by_name)
def test_an_invalid_frame_is_marked(case, shown_together):
    row = shown_together["invalid", case.name]
    if (
        case.code == "HELLO_REQUIRED" or case.name == "length 4097 before Hello"
    ):  # or the capture begins too late
        assert row.fields.keys() & {"zaichik.ungreeted", "zaichik.malformed"}
    else:
        assert row.fields["zaichik.malformed"] == ["1"]
        assert "[malformed]" in row.line


@needs_tshark
def test_another_port_can_be_decoded_as_zaichik(shown_together):
    assert shown_together["port", 9000].line == "zaichik → Hello 1"


@needs_tshark
def test_a_topic_cannot_rewrite_the_line_it_is_in(shown_together):
    assert shown_together["topic", ODD_TOPIC].line.endswith(r"CreateTopic 2 a\x0a␀\xe2\x80\xaeb")


@needs_tshark
def test_it_agrees_with_the_decoder_about_damaged_frames(tmp_path):
    chance, capture, verdicts = random.Random(7), Capture(), {}
    for case in GOLDEN * 6:
        data = bytearray(case.data)
        for _ in range(chance.randint(1, 2)):
            at, gone = chance.randint(5, len(data)), chance.randint(0, 2)
            data[at : at + gone] = bytes(
                chance.choices(b"\0\1\2@\x80\xc3\xe2\xff", k=chance.randint(0, 3))
            )
        data = with_right_length(bytes(data))
        decoder = FrameDecoder.for_client()
        if end_of(case.frame) == "client":
            decoder = FrameDecoder.for_broker()
            decoder.greeted(max_frame=2**20)
        decoder.receive_data(data)
        try:
            verdict = expected(decoder.next_frame())
        except ProtocolError:
            verdict = None
        verdicts[opened(capture).send(end_of(case.frame), data, 7)] = verdict, data
    rows = tshark(capture, tmp_path)
    for number, (verdict, data) in verdicts.items():
        row = rows[number]
        assert ("[malformed]" in row.line) == (verdict is None), data.hex()
        if verdict is not None:  # what is in JSON, neither looks at
            assert shown(row) | {"zaichik.json": []} == verdict | {"zaichik.json": []}, data.hex()
    assert {verdict is None for verdict, _ in verdicts.values()} == {True, False}


@needs_tshark
@pytest.mark.parametrize("size", SIZES)
def test_frames_are_found_however_a_network_cuts_them(size, shown_together):
    rows = [row for which, row in shown_together.items() if which[:2] == ("pieces", size)]
    types = [value for row in rows for value in row.fields.get("zaichik.type", [])]
    assert types == [str(case.frame.TYPE) for case in GOLDEN if end_of(case.frame) == "broker"]


@needs_tshark
def test_a_reply_names_its_request_and_a_request_its_reply(shown_together):
    rows = {what: row for (of, what, *_), row in shown_together.items() if of == "conversation"}
    number = {what: str(row.number) for what, row in rows.items()}
    assert rows["welcome"].fields["zaichik.request_in"] == [str(rows["welcome"].number - 1)]
    assert rows["asked"].fields["zaichik.reply_in"] == [number["failed"], number["pong"]]
    assert "zaichik.reply_in" not in rows["silent"].fields
    assert rows["pong"].fields["zaichik.request_in"] == [number["asked"]]
    # That of the Error; the Published after it answers nothing.
    assert rows["failed"].fields["zaichik.request_in"] == [number["asked"]]
    assert rows["failed"].fields["zaichik.refused"] == ["1"]
    assert "TOPIC_FULL" in rows["failed"].line


@needs_tshark
def test_what_a_capture_lacks_is_not_taken_for_a_mistake(shown_together):
    late, cut = shown_together["late", "Ping"], shown_together["cut", "Publish"]
    assert "Ping 9" in late.line
    assert late.fields["zaichik.ungreeted"] == ["1"]
    assert not any("zaichik.malformed" in row.fields for row in (late, cut))


@needs_tshark
def test_what_is_encrypted_is_left_to_tls(shown_together):
    row = shown_together["tls", "Hello"]
    assert "TLS" in row.line
    assert not any(name.startswith("zaichik") for name in row.fields)


@needs_tshark
def test_it_is_shown_if_the_keys_are_there(tmp_path):
    capture = Capture()
    hello, welcome = encrypted(capture.connection(), tmp_path / "keys", HELLO, WELCOME.data)
    rows = tshark(capture, tmp_path, "-o", f"tls.keylog_file:{tmp_path / 'keys'}")
    assert rows[hello].line == "zaichik → Hello 1"
    assert shown(rows[welcome]) == expected(WELCOME.frame)


async def recorded(stream, other, keep):
    """Pass on what a stream brings, and keep it."""
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for data in stream:
            keep(data)
            await other.send(data)
        await other.send_eof()


@pytest.fixture
def echo(monkeypatch):
    """The first example."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    return import_module("echo")


@needs_tshark
@pytest.mark.anyio
async def test_a_conversation_of_an_example_is_shown_frame_by_frame(echo, tmp_path):
    capture, said = Capture(), {"client": b"", "broker": b""}
    connection = capture.connection()

    def keep(end, data):
        said[end] += data
        connection.send(end, data)

    async def between(client):
        server = await anyio.connect_tcp("127.0.0.1", broker.port)
        async with client, server, anyio.create_task_group() as both:
            both.start_soon(recorded, client, server, partial(keep, "client"))
            both.start_soon(recorded, server, client, partial(keep, "broker"))

    with anyio.fail_after(30):
        async with (
            running_broker() as broker,
            await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(listener.serve, between)
            await echo.main(listener.extra(SocketAttribute.local_address))
            tasks.cancel_scope.cancel()
    rows = await anyio.to_thread.run_sync(tshark, capture, tmp_path)
    for end, arrow in (("client", "→"), ("broker", "←")):
        decoder = FrameDecoder(ALL_FRAMES, max_frame=2**32 - 1)
        decoder.receive_data(said[end])
        rows_of_end = [
            row.fields for row in rows.values() if row.line.startswith(f"zaichik {arrow}")
        ]
        told = [value for found in rows_of_end for value in found["zaichik.type"]]
        assert told == [str(frame.TYPE) for frame in all_frames(decoder)]
        assert not any("zaichik.malformed" in found for found in rows_of_end)
    payloads = [
        value for row in rows.values() for value in row.fields.get("zaichik.batch.payload", [])
    ]
    assert sorted(payloads) == sorted(word.hex() for word in echo.WORDS * 2)


@needs_tshark
def test_the_page_shows_what_tshark_prints_which_is_no_secret(tmp_path):
    capture = Capture()
    connection = capture.connection()
    connection.send("client", encode(Hello(1, client="shop", auth=1, secret="hush, hush")))
    connection.send("broker", WELCOME.data)
    connection.send(
        "client",
        encode(Publish(2, "orders", Batch.of([(b"ana", b"two apples"), (b"", b"a pear")]))),
    )
    connection.send(
        "broker",
        encode(Published(2, 0, 2, 0, 1)) + encode(Messages(1, 0, 0, Batch.of([(b"", b"x")]))),
    )
    connection.send("client", encode(Commit(3, 1, 9)))
    refused = "no message at or above offset 2 has been delivered to subscription 1"
    connection.send(
        "broker", encode(Error(3, ErrorCode.NOT_IN_FLIGHT, Commit.TYPE, "next", 0, refused))
    )
    command = [
        "tshark",
        "-2",
        "-r",
        capture.write(tmp_path / "capture.pcap"),
        "-X",
        f"lua_script:{DISSECTOR}",
    ]
    blocks = re.findall(
        r"^```text\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert len(blocks) == 2
    for block, options in zip(blocks, ([], ["-O", "zaichik"]), strict=True):
        told = subprocess.run(
            [*command, "-Y", "zaichik", *options], capture_output=True, text=True, check=True
        ).stdout
        assert " ".join(block.split()) in " ".join(
            told.split()
        )  # versions differ in the widths of columns
    assert "secret: 10 bytes" in told
    assert "hush" not in told
