import re

import pytest
from offenders import each
from wire_examples import ROOT

from zaichik_protocol import EndCode, ErrorCode, GoAwayCode, ProtocolError, Refused

TEXT = (ROOT / "protocol" / "README.md").read_text(encoding="utf-8")


def test_the_text_has_exactly_these_errors():
    rows = re.findall(
        r"^\| (\d+) \| `(\w+)` \| (ends|goes on) \| (yes)? ?\| (.+) \|$", TEXT, re.MULTILINE
    )
    assert [
        (int(number), name, fate == "ends", bool(retry), meaning)
        for number, name, fate, retry, meaning in rows
    ] == [(code.value, code.name, code.fatal, code.retryable, code.meaning) for code in ErrorCode]


@pytest.mark.parametrize(
    ("frame", "codes"), [("SubscriptionEnded", EndCode), ("GoAway", GoAwayCode)]
)
def test_the_text_has_exactly_these_reasons_to_end(frame, codes):
    rows = re.findall(rf"^\| {frame} \| (\d+) \| `(\w+)` \| (.+) \|$", TEXT, re.MULTILINE)
    assert [(int(number), name, meaning) for number, name, meaning in rows] == [
        (code.value, code.name, code.meaning) for code in codes
    ]


@each("code", ErrorCode)
def test_codes_below_64_and_only_they_end_the_connection(code):
    assert code.fatal == (code.value < 64)


@pytest.mark.parametrize("codes", [ErrorCode, EndCode, GoAwayCode])
def test_codes_fit_their_field_and_are_unique(codes):
    assert all(0 < code < 2**16 for code in codes)
    assert len(codes.__members__) == len(list(codes))  # an alias would be a number given twice


def test_a_code_is_its_number():
    assert ErrorCode(64) is ErrorCode.INVALID_FIELD
    assert ErrorCode.INVALID_FIELD == 64
    with pytest.raises(ValueError, match="999 is not a valid ErrorCode"):
        ErrorCode(999)


def test_a_refusal_says_what_an_error_frame_needs():
    refused = Refused(ErrorCode.INVALID_FIELD, "the topic's name is empty", "topic")
    assert (refused.code, refused.message, refused.field) == (
        64,
        "the topic's name is empty",
        "topic",
    )
    assert str(refused) == "the topic's name is empty"


def test_a_protocol_error_is_a_refusal_that_knows_its_request():
    error = ProtocolError(ErrorCode.UNSUPPORTED, "no", request_id=7, request_type=9)
    assert isinstance(error, Refused)
    assert (error.field, error.request_id, error.request_type) == ("", 7, 9)
