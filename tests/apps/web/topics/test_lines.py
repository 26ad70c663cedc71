"""Messages as lines of JSON, and back."""

import json

import pytest

from zaichik import Message
from zaichik.apps.web.topics.lines import rows_of, shown
from zaichik.apps.web.topics.statuses import Refusal


def message(key, payload):
    return Message("orders", 17, 1.25, key, payload)


@pytest.mark.parametrize(
    ("key", "payload", "members"),
    [
        (None, b"two", {"payload": "two"}),
        (b"ana", b"", {"key": "ana", "payload": ""}),
        (b"\xff", b"\xfe\x00", {"key_base64": "/w==", "payload_base64": "/gA="}),
        (b'"\n', "\u2028é".encode(), {"key": '"\n', "payload": "\u2028é"}),
    ],
)
def test_a_message_comes_back_as_it_was(key, payload, members):
    row = shown(message(key, payload), in_table=False)
    assert row == {"offset": 17, "time": 1.25} | members
    assert rows_of(json.dumps({"id": "7-17"} | row).encode(), 1) == [(key, payload)]


def test_in_a_table_an_empty_payload_deletes_its_key():
    row = shown(message(b"ana", b""), in_table=True)
    assert row["payload"] is None
    assert rows_of(json.dumps(row).encode(), 1) == [(b"ana", None)]
    assert shown(message(None, b""), in_table=True)["payload"] == ""


def test_empty_lines_are_no_messages_and_the_last_line_needs_no_end():
    body = b'\n{"payload":"1"}\r\n\n  \n{"payload":"2","key":null}'
    assert rows_of(body, 2) == [(None, b"1"), (None, b"2")]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"", "no message"),
        (b"\n \n", "no message"),
        (b"two apples", "line 1"),
        (b'{"payload":"1"}\n{"payload":', "line 2"),
        (b'["payload"]', "not a JSON object"),
        (b'"payload"', "not a JSON object"),
        (b"{}", "no payload"),
        (b'{"key":"a"}', "no payload"),
        (b'{"payload":1}', "must be a text"),
        (b'{"payload":{"a":1}}', "must be a text"),
        (b'{"payload":"1","key":7}', "must be a text"),
        (b'{"payload":"1","key_base64":null}', "must be a text"),
        (b'{"payload":"1","payload_base64":"MQ=="}', "exclude"),
        (b'{"payload_base64":"M"}', "line 1"),
        (b'{"payload_base64":"M Q = ="}', "line 1"),
        (b'{"payload_base64":"\xc3\xa9"}', "line 1"),
        (b'{"payload":"1","payload":"2"}', "twice"),
        (b'{"payload":"1","time":{"a":1,"a":2}}', "twice"),
        (b'{"payload":"1","time":NaN}', "NaN is not JSON"),
        (b'{"payload":"1","time":-Infinity}', "is not JSON"),
        (b'{"payload":"1","offset":' + b"1" * 5000 + b"}", "line 1"),
        (b'{"payload":"1","time":' + b"[" * 100_000 + b"}", "nested"),
        (b'{"payload":"\\ud800"}', "not UTF-8"),
        (b'{"payload":"\xff"}', "not UTF-8"),
        ('{"payload":"1"}'.encode("utf-16"), "line 1"),
        (b'{"payload":"1","headers":{}}', "headers"),
        (b'{"payload":"1"} {"payload":"2"}', "line 1"),
    ],
)
def test_a_line_that_is_no_message_is_refused_with_its_number(line, problem):
    with pytest.raises(Refusal) as caught:
        rows_of(line, 2)
    assert caught.value.status == 400
    assert problem in caught.value.text


def test_no_more_lines_are_parsed_than_a_batch_may_have():
    with pytest.raises(Refusal) as caught:
        rows_of(b'{"payload":"1"}\n\n{"payload":"2"}\nnot parsed', 2)
    assert (caught.value.name, caught.value.status) == ("BATCH_TOO_LARGE", 413)
