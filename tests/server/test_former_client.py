"""Clients of earlier versions at today's broker: what they sent then is answered as it was then.

Their bytes are kept in `former_client_VERSION.txt`, which `record_client.py` writes, so no change
of today's client or codec can change what they say. What may differ is what the protocol leaves to
a broker: numbers of its own choice, times, its name, texts for people, limits that have grown, and
in the JSON of Described the conservation laws and fields that were added. How its messages are cut
into frames is the broker's choice as well, and so is whether an event comes before or after a reply
(open.7).
"""

import json
from contextlib import aclosing
from pathlib import Path

import pytest
from raw_client import (
    DEAD_PAGE,
    DESCRIBED,
    ENDED,
    EXPLAINED,
    HELLO,
    MESSAGES,
    UNSUPPORTED_VERSION,
    WELCOME,
    Frame,
    RawClient,
    check_error,
)

import zaichik
from zaichik import ManualClock
from zaichik_protocol import FrameDecoder, encode

pytestmark = pytest.mark.anyio

CLIENT, BROKER = ">", "<"
FREE = {"boot", "broker", "epoch", "accepted_us", "text", "message", "base", "batch", "messages"}
FREE |= {"json"}
LIMITS = {"max_frame", "max_batch", "max_message", "max_credit"}
START_US = 1_700_000_000_000_000  # where the clock of those brokers stood that had one
VERSIONS = ["0.1.0", "0.2.0"]

# Every request that a version has.
REQUESTS = {"0.1.0": {*range(1, 10)}, "0.2.0": {*range(1, 16)}}


@pytest.fixture(params=VERSIONS)
def version(request):
    return request.param


def recorded(version):
    """Returns the frames of the conversation: who said it, and its bytes."""
    frames, text = [], []
    path = Path(__file__).parent / f"former_client_{version}.txt"
    lines = path.read_text(encoding="utf-8").splitlines()
    for line in [*lines, ""]:
        if line[:2] in {"> ", "< "}:
            frames.append((line[0], bytearray.fromhex(line[2:])))
        elif line.startswith("  {") or (text and line):
            text.append(line.strip())
        elif line.startswith("  "):
            frames[-1][1].extend(bytes.fromhex(line))
        elif text:
            frames[-1][1].extend(" ".join(text).encode())
            text.clear()
    return [(who, bytes(data)) for who, data in frames]


def turns(version):
    """Yield what the client sent until it waited for answers, and the answers."""
    said, answers = b"", []
    for who, data in recorded(version):
        if who == CLIENT and answers:
            yield said, answers
            said, answers = b"", []
        if who == CLIENT:
            said += data
        else:
            answers.append(Frame(data[4:12], data[12:]))
    yield said, answers


def sorted_out(frames):
    """Returns replies and events apart, and the messages however they were cut into frames."""
    replies = [frame for frame in frames if not frame.is_event]
    events = [frame for frame in frames if frame.is_event and frame.kind != MESSAGES]
    messages = [
        (frame.id, *message)
        for frame in frames
        if frame.kind == MESSAGES
        for message in frame.messages
    ]
    return replies, events, messages


def fixed(frame):
    """What a broker is not free to choose."""
    return (
        frame.kind,
        frame.flags,
        frame.id,
        {k: v for k, v in frame.fields.items() if k not in FREE | LIMITS},
    )


def shape(value):
    """The names in JSON and the kinds of their values, without the values and the laws, whose names
    are sums.
    """
    if isinstance(value, dict):
        return {name: shape(part) for name, part in value.items() if name != "left_over"}
    if isinstance(value, list):
        return [shape(part) for part in value]
    return type(value)


def lacks(now, then, where=""):
    """Yield the names that were in JSON then and are not now, or are of another kind."""
    if isinstance(then, dict) and isinstance(now, dict):
        for name, part in then.items():
            if name in now:
                yield from lacks(now[name], part, f"{where}.{name}")
            else:
                yield f"{where}.{name}"
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for one, other in zip(now, then, strict=True):
            yield from lacks(one, other, where)
    elif now != then:
        yield where


async def answers_of(client, expected):
    """Returns what comes until as much has come as is expected: replies, events, messages."""
    got = []
    wanted = [len(part) for part in sorted_out(expected)]
    while any(len(part) < count for part, count in zip(sorted_out(got), wanted, strict=True)):
        got.append(await client.read())
    return got


async def test_what_a_former_client_sent_is_answered_as_it_was(version):
    async with (
        zaichik.running_broker(clock=ManualClock(START_US)) as broker,
        aclosing(await RawClient.connect(broker.port)) as client,
    ):
        for said, then in turns(version):
            await client.send(said)
            now = await answers_of(client, then)
            for part, former in zip(sorted_out(now)[:2], sorted_out(then)[:2], strict=True):
                assert [fixed(frame) for frame in part] == [fixed(frame) for frame in former]
            assert sorted_out(now)[2] == sorted_out(then)[2]
            check_frames(now, then)
        await client.ends()


def check_frames(now, then):
    """Limits have not become smaller, and no field has gone from JSON."""
    for frame, former in zip(sorted_out(now)[0], sorted_out(then)[0], strict=True):
        if frame.kind == WELCOME:
            assert all(frame.fields[name] >= former.fields[name] for name in LIMITS)
        if frame.kind in {DESCRIBED, EXPLAINED, DEAD_PAGE} and former.json:
            assert list(lacks(shape(json.loads(frame.json)), shape(json.loads(former.json)))) == []


async def test_a_client_of_versions_that_are_gone_is_told_which_there_are(version):
    """hello.9: what the former client would be answered by a broker that no longer speaks its
    version.
    """
    hello = bytearray(recorded(version)[0][1])
    hello[16:20] = bytes.fromhex("0200 0700")  # version_min, version_max
    async with (
        zaichik.running_broker() as broker,
        aclosing(await RawClient.connect(broker.port)) as client,
    ):
        await client.send(hello)
        answer = check_error(
            await client.read(), UNSUPPORTED_VERSION, request_type=HELLO, fatal=True
        )
        assert answer.message == "this broker speaks version 1 only; the client speaks 2 to 7"
        await client.ends()


async def test_todays_codec_reads_and_writes_the_same_bytes(version):
    """version.1: bodies never change under version 1."""
    requests, answers = FrameDecoder.for_broker(), FrameDecoder.for_client()
    for number, (who, data) in enumerate(recorded(version)):
        decoder = requests if who == CLIENT else answers
        decoder.receive_data(data)
        assert encode(decoder.next_frame()) == data
        if number == 0:
            requests.greeted(1 << 20)


async def test_the_recording_is_whole(version):
    frames = recorded(version)
    assert all(int.from_bytes(data[:4], "little") == len(data) - 4 for _, data in frames)
    assert {data[4] for who, data in frames if who == CLIENT} == REQUESTS[version]
    assert {MESSAGES, ENDED} <= {data[4] for who, data in frames if who == BROKER}
