"""Every error has a status, chosen in one table."""

import json

import pytest

import zaichik
from zaichik.apps.web.topics.statuses import OWN, STATUSES, Refusal
from zaichik.client import errors
from zaichik_protocol import EndCode, Error, ErrorCode, GoAwayCode, Publish


def refused_with(code, retryable=False, retry_after_ms=0):
    error = Error(1, code, Publish.TYPE, "", retry_after_ms, "text\x1b[0m", retryable=retryable)
    return Refusal.of(zaichik.BrokerError.of(error))


def test_every_code_of_the_protocol_and_every_error_of_the_client_is_in_the_table():
    codes = {code.name for of in (ErrorCode, EndCode, GoAwayCode) for code in of}
    of_client = {
        kind.name
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, zaichik.ZaichikError) and kind.name
    }
    # A stream that has reached its end has no error.
    assert STATUSES.keys() == (codes | of_client) - {"UNTIL"}
    assert not STATUSES.keys() & OWN.keys()
    assert {*STATUSES.values(), *OWN.values()} <= {*range(400, 600)}


@pytest.mark.parametrize("code", ErrorCode)
def test_what_may_pass_says_when_to_try_again(code):
    passing = refused_with(code, retryable=True)
    assert passing.response.headers["retry-after"] == "1"
    assert passing.response.status_code == STATUSES[code.name]
    assert "retry-after" not in refused_with(code).response.headers


def test_the_time_to_wait_is_the_brokers_in_whole_seconds():
    refusal = refused_with(ErrorCode.TOPIC_FULL, retryable=True, retry_after_ms=2100)
    assert refusal.response.headers["retry-after"] == "3"


@pytest.mark.parametrize("code", [code for code in ErrorCode if code.retryable])
def test_no_status_for_what_may_pass_says_that_the_request_is_wrong(code):
    assert STATUSES[code.name] >= 500


def test_an_error_is_json_in_which_nothing_is_hidden():
    response = refused_with(ErrorCode.FORBIDDEN).response
    assert json.loads(response.body) == {"error": "FORBIDDEN", "text": "text\\x1b[0m"}
    assert response.headers["content-type"] == "application/json"


def test_a_later_brokers_code_is_known_by_its_number():
    assert refused_with(63).status == 502
    assert refused_with(999).status == 400


def test_who_must_log_in_is_told_how():
    assert refused_with(ErrorCode.AUTH_FAILED).response.headers["www-authenticate"] == "Bearer"
    assert "www-authenticate" not in refused_with(ErrorCode.FORBIDDEN).response.headers
