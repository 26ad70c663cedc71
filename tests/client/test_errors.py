import copy
import pickle

import pytest
from brokers import fake_client
from offenders import each

import zaichik
from zaichik import BrokerError, ZaichikError
from zaichik.client.endpoint import NotAnAddress
from zaichik.client.errors import name_of
from zaichik_protocol import EndCode, Error, ErrorCode, GoAwayCode, Ping

CODES = list(ErrorCode)


def type_of(code: ErrorCode) -> type[BrokerError]:
    return getattr(zaichik, code.name.title().replace("_", ""))


def refusal(request_id: int, code: int, **flags: bool) -> Error:
    return Error(request_id, code, Ping.TYPE, "value", 1500, "cause and next step", **flags)


@each("code", CODES)
def test_every_code_has_a_public_type_of_its_own(code):
    error = BrokerError.of(refusal(1, code))
    assert type(error) is type_of(code)
    assert issubclass(type(error), ZaichikError)
    assert type(error).__name__ in zaichik.__all__
    assert error.code == code


def test_no_type_stands_for_two_codes():
    assert len({type_of(code) for code in CODES}) == len(CODES)


def test_every_public_error_stands_for_a_code():
    public = {
        value for name in zaichik.__all__ if isinstance(value := getattr(zaichik, name), type)
    }
    assert {cls for cls in public if issubclass(cls, BrokerError)} == {
        type_of(code) for code in CODES
    } | {BrokerError}


def test_an_error_has_the_fields_of_its_frame():
    error = BrokerError.of(refusal(1, ErrorCode.TOPIC_FULL, retryable=True))
    assert (error.message, error.field, error.retryable, error.retry_after) == (
        "cause and next step",
        "value",
        True,
        1.5,
    )


@each("code", CODES)
def test_a_message_ends_in_the_name_of_its_code(code):
    error = BrokerError.of(refusal(1, code))
    assert (error.message, error.name) == ("cause and next step", code.name)
    assert str(error) == f"cause and next step [{code.name}]"


@pytest.mark.parametrize("codes", [ErrorCode, EndCode, GoAwayCode])
def test_a_code_of_a_later_protocol_has_no_name(codes):
    assert [name_of(codes, number) for number in (0, 1, 999)] == ["", next(iter(codes)).name, ""]


def test_an_error_of_the_client_has_the_name_of_its_type():
    class TooSoon(ZaichikError):
        pass

    assert str(TooSoon("wait")) == "wait [TOO_SOON]"
    assert str(TooSoon()) == "[TOO_SOON]"
    assert str(zaichik.ConnectFailed("nobody is there")) == "nobody is there [CONNECT_FAILED]"


def test_an_error_of_several_codes_has_the_name_it_was_given():
    assert str(zaichik.ConnectionLost("it stops", "STOPPING")) == "it stops [STOPPING]"
    assert str(zaichik.ConnectionLost("it was reset")) == "it was reset [CONNECTION_LOST]"


def test_a_type_that_stands_for_no_code_has_none():
    assert str(ZaichikError("something")) == "something"


@pytest.mark.parametrize("text", ["", "HOST", "zaichik://x:1?pin=sha256:00", "http://x:1"])
def test_what_is_not_an_address_has_a_code_and_is_still_a_value_error(text):
    with pytest.raises(ValueError, match=r"[^\]] \[NOT_AN_ADDRESS\]$"):
        zaichik.endpoint(text)


@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
@pytest.mark.parametrize(
    "error",
    [
        BrokerError.of(refusal(1, ErrorCode.TOPIC_FULL, retryable=True)),
        BrokerError.of(refusal(1, 999)),
        zaichik.ConnectFailed("nobody is there"),
        zaichik.ConnectionLost("it stops", "STOPPING"),
        NotAnAddress("no"),
    ],
    ids=str,
)
def test_an_error_can_be_copied_and_sent_to_another_process(again, error):
    other = again(error)
    assert other is not error
    assert (type(other), str(other), vars(other)) == (type(error), str(error), vars(error))


def test_a_code_of_a_later_broker_is_a_broker_error():
    error = BrokerError.of(refusal(1, 999))
    assert type(error) is BrokerError
    assert error.code == 999
    assert str(error) == "cause and next step [999]"


def test_only_temporary_errors_are_retryable():
    assert zaichik.ConnectFailed.retryable
    assert zaichik.ConnectionLost.retryable
    assert not zaichik.SubscriptionLost.retryable
    assert not zaichik.ZaichikError.retryable


@pytest.mark.anyio
@pytest.mark.parametrize("code", CODES)
async def test_a_refused_request_raises_the_type_of_its_code(code):
    """ERR."""
    answers = {
        Ping: lambda frame: refusal(frame.id, code, retryable=code.retryable, fatal=code.fatal)
    }
    async with fake_client(answers, reconnect=0) as (_, client):
        with pytest.raises(type_of(code)) as caught:
            await client.ping()
    assert caught.value.retryable is code.retryable
