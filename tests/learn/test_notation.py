"""Values in words, in nobody's own notation."""

import pytest

from zaichik.learn import notation, wire
from zaichik.learn.layouts import FOREVER, NEVER
from zaichik.learn.ledger import Ledger
from zaichik.learn.trace import Trace
from zaichik.learn.wire import Message


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"two apples", '"two apples"'),
        (b"", '""'),
        (b'a"b\\c\n\t\r', '"a\\"b\\\\c\\n\\t\\r"'),
        (b"\0\x7f\xff", '"\\x00\\x7f\\xff"'),
        (b"x" * 24, '"' + "x" * 24 + '"'),
        (b"x" * 2500, '"' + "x" * 24 + '…" (2,500 bytes)'),
    ],
)
def test_bytes_are_a_string_in_double_quotes(data, text):
    assert notation.text(data) == text


@pytest.mark.parametrize(
    ("frame", "field", "kind", "value", "text"),
    [
        ("Error", "code", "u16", 71, "NOT_IN_FLIGHT"),
        ("Error", "code", "u16", 63, "63, which is not an error code"),
        ("SubscriptionEnded", "code", "u16", 1, "UNTIL"),
        ("GoAway", "code", "u16", 1, "STOPPING"),
        ("GoAway", "code", "u16", 9, "9"),
        ("Error", "flags", "u8", 2, "2 (FATAL)"),
        ("Pong", "flags", "u8", 2, "2"),
        ("Error", "request_type", "u8", 6, "0x06 Commit"),
        ("Error", "request_type", "u8", 0x7E, "0x7e ?"),
        ("Subscribe", "until", "u64", NEVER, "never"),
        ("Pong", "value", "u64", NEVER, "18446744073709551615"),
        ("TopicCreated", "settings", "settings", [(1, FOREVER), (3, 5), (99, 1)],
         "{retention_ttl_ms: forever, capacity: 5, 99: 1}"),
        ("CreateTopic", "settings", "settings", {3: 5}, "{capacity: 5}"),
        ("Messages", "batch", "batch", [(b"k", b"v")] * 5, ('["k": "v", "k": "v", "k": "v", "k": '
        '"v", … 5 in all]')),
        ("Publish", "batch", "batch", b"\1", '"\\x01"'),
        ("Messages", "deltas", "deltas", [0, 2], "[0, 2]"),
        ("Published", "dropped", "rest", b"", "(no bytes)"),
        ("Published", "dropped", "rest", b"\x05\x01", "05 01"),
        ("Welcome", "broker", "str", "it's", '"it\'s"'),
    ],
)  # fmt: skip
def test_a_field_says_what_its_number_stands_for(frame, field, kind, value, text):
    assert notation.value(frame, field, kind, value) == text


def test_several_things_are_told_beside_one_another():
    assert notation.numbers([]) == "none"
    assert (
        notation.fields("Error", {"code": 70, "flags": 0})
        == "Error code=NO_SUCH_SUBSCRIPTION flags=0"
    )
    assert notation.message(Message(3, b"k", b"v")) == 'offset 3: key "k", payload "v"'


def test_a_ledger_tells_what_is_beyond_the_credit():
    ledger = Ledger(2, 10)
    ledger.delivered([Message(0, b"k", b"12345678")])
    assert ledger.overdrawn() == ""
    ledger.delivered([Message(1, b"", b"12")])
    assert ledger.overdrawn() == "11 bytes in flight, credit 10 bytes"
    ledger.delivered([Message(2, b"", b"")])
    assert ledger.overdrawn() == "3 in flight, credit 2"
    ledger.committed(1)
    assert ledger.overdrawn() == ""
    ledger.committed(3)
    ledger.delivered([Message(3, b"", bytes(1000))])
    assert ledger.overdrawn() == ""  # alone, any size may go


CANARY, HIDDEN = "zk_" + "Canary-" * 6 + "x", "\u203946 bytes\u203a"


@pytest.mark.parametrize(
    "client", ["", "a client with a long name, so that all of this is beyond what is shown"]
)
def test_a_secret_is_shown_by_its_length_alone(client):
    """In the line of a frame, in hexadecimal, for programs, and as Python shows the objects."""
    data = wire.encode("Hello", frame_id=1, client=client, auth=1, secret=CANARY)
    trace = Trace()
    trace.sent(0.0, 1, data)
    (entry,) = trace.entries
    assert entry.line().endswith(f'auth=1 user="" secret={HIDDEN}')
    texts = [
        entry.line(),
        entry.hex(),
        entry.hex(len(data), ""),
        repr(entry.frame),
        str(entry.frame.span("secret")),
    ]
    texts.append(notation.fields("Hello", {"auth": 1, "secret": CANARY}))
    assert not [
        text for text in texts if "Canary" in text or b"Canary".hex() in text.replace(" ", "")
    ]
    assert entry.hex(len(data), "") == data[:-46].hex() + HIDDEN
    assert entry.hex().endswith(f" 2e 00 {HIDDEN}" if not client else " more")


def test_a_hello_without_a_secret_is_shown_as_it_is():
    data = wire.encode("Hello", frame_id=1)
    trace = Trace()
    trace.sent(0.0, 1, data)
    assert trace.entries[0].line().endswith('secret=""')
    assert trace.entries[0].hex(len(data)) == data.hex(" ")
