import copy
import pickle

import pytest
from brokers import fake_client

import zaichik
from zaichik import BrokerError, ZaichikError
from zaichik_protocol import Error, ErrorCode, Ping

CODES = list(ErrorCode)


def type_of(code: ErrorCode) -> type[BrokerError]:
    return getattr(zaichik, code.name.title().replace("_", ""))


def refusal(request_id: int, code: int, **flags: bool) -> Error:
    return Error(request_id, code, Ping.TYPE, "value", 1500, "cause and next step", **flags)


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_public_type_of_its_own(code):
    error = BrokerError.of(refusal(1, code))
    assert type(error) is type_of(code)
    assert issubclass(type(error), ZaichikError)
    assert type(error).__name__ in zaichik.__all__
    assert error.code == code


def test_no_type_stands_for_two_codes():
    assert len({type_of(code) for code in CODES}) == len(CODES)


def test_every_public_error_stands_for_a_code():
    public = {value for name in zaichik.__all__ if isinstance(value := getattr(zaichik, name), type)}
    assert {cls for cls in public if issubclass(cls, BrokerError)} == {type_of(code) for code in CODES} | {BrokerError}


def test_an_error_has_the_fields_of_its_frame():
    error = BrokerError.of(refusal(1, ErrorCode.TOPIC_FULL, retryable=True))
    assert (str(error), error.field, error.retryable, error.retry_after) == ("cause and next step", "value", True, 1.5)


@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_can_be_copied_and_sent_to_another_process(again):
    error = BrokerError.of(refusal(1, ErrorCode.TOPIC_FULL, retryable=True))
    other = again(error)
    assert other is not error
    assert (type(other), str(other), vars(other)) == (type(error), str(error), vars(error))


def test_a_code_of_a_later_broker_is_a_broker_error():
    error = BrokerError.of(refusal(1, 999))
    assert type(error) is BrokerError
    assert error.code == 999


def test_only_temporary_errors_are_retryable():
    assert zaichik.ConnectFailed.retryable
    assert zaichik.ConnectionLost.retryable
    assert not zaichik.SubscriptionLost.retryable
    assert not zaichik.ZaichikError.retryable


@pytest.mark.anyio
@pytest.mark.parametrize("code", CODES)
async def test_a_refused_request_raises_the_type_of_its_code(code):
    """ERR."""
    answers = {Ping: lambda frame: refusal(frame.id, code, retryable=code.retryable, fatal=code.fatal)}
    async with fake_client(answers, reconnect=0) as (_, client):
        with pytest.raises(type_of(code)) as caught:
            await client.ping()
    assert caught.value.retryable is code.retryable
