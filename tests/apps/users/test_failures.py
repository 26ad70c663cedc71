"""Failed logins are counted by address, as the broker counts them."""

import pytest

import zaichik
from zaichik.apps.users import failures
from zaichik.apps.users.failures import OF_ALL, OF_ONE, Failures
from zaichik.server.access.backoff import Failures as BrokersFailures


@pytest.fixture
def clock():
    return zaichik.ManualClock(1)


def test_one_address_cannot_use_up_what_all_have(clock):
    found = Failures(clock.now_us)
    while found.may_try("10.0.0.1:1"):
        found.failed("10.0.0.1:2")
    assert found.may_try("10.0.0.2:1")
    assert not found.may_guess("10.0.0.1:3")


def test_a_network_of_ipv6_is_one_address(clock):
    found = Failures(clock.now_us)
    for number in range(OF_ONE):
        found.failed(f"2001:db8::{number}:5000")
    assert not found.may_try("2001:db8::ffff:5000")
    assert found.may_try("2001:db8:0:1::1:5000")


def test_guesses_that_the_broker_does_not_see_count_for_their_address_only(clock):
    found = Failures(clock.now_us)
    for _ in range(OF_ALL):
        found.guessed("10.0.0.1:1")
    assert not found.may_guess("10.0.0.1:1")
    assert found.may_try("10.0.0.2:1")


def test_the_broker_never_delays_a_gateway_that_is_attacked_for_long(clock):
    """Here with as many addresses as it takes, for ten minutes."""
    found, broker = Failures(clock.now_us), BrokersFailures(clock)
    broker.succeeded("gateway")
    failed = 0
    for number in range(6000):
        if number % 300 == 0:
            broker.succeeded("gateway")
        peer = f"10.0.{number // 250}.{number % 250}:1"
        while found.may_try(peer):
            found.failed(peer)
            broker.failed("gateway")
            failed += 1
        assert broker.has_token("gateway")
        clock.advance(0.1)
    assert failed >= 600


def test_what_is_remembered_is_bounded(clock, monkeypatch):
    monkeypatch.setattr(failures, "MOST_ADDRESSES", 2)
    found = Failures(clock.now_us)
    for _ in range(OF_ONE):
        for number in (1, 2):
            found.guessed(f"10.0.0.{number}:1")
    found.guessed("10.0.0.3:1")
    assert found.may_guess("10.0.0.1:1")
    assert not found.may_guess("10.0.0.2:1")
