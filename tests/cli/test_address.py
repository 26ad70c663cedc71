"""HOST:PORT."""

import argparse

import pytest

from zaichik.cli.address import Address, address, port


@pytest.mark.parametrize(
    ("text", "host", "number"),
    [
        ("127.0.0.1:8889", "127.0.0.1", 8889),
        ("broker.example:1", "broker.example", 1),
        ("[::1]:8889", "::1", 8889),
    ],
)
def test_an_address_is_a_host_and_a_port(text, host, number):
    assert address(text) == (host, number)
    assert str(address(text)) == text


@pytest.mark.parametrize("text", ["", "localhost", ":8889", "::1:8889", "8889", "host:"])
def test_other_texts_are_not_addresses(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"is not an? (address|port)"):
        address(text)


@pytest.mark.parametrize("text", ["65536", "-1", "http", "²"])
def test_a_port_is_a_number_up_to_65535(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"is not a port; it must be 0 to 65535$"):
        port(text)


def test_loopback_is_what_only_this_machine_can_reach():
    assert Address("127.0.0.1", 1).is_loopback
    assert Address("::1", 1).is_loopback
    assert not Address("0.0.0.0", 1).is_loopback  # noqa: S104
    assert not Address("fe80::1%eth0", 1).is_loopback


def test_the_environment_names_the_broker_and_the_option_overrides_it(zaichik, broker, monkeypatch):
    monkeypatch.setenv("ZAICHIK_CONNECT", "127.0.0.1:1")
    assert "no broker answers at 127.0.0.1:1" in zaichik("topics").err
    assert zaichik("topics", "--connect", broker).code == 0


def test_a_wrong_environment_is_wrong_usage(zaichik, monkeypatch):
    monkeypatch.setenv("ZAICHIK_CONNECT", "nowhere")
    result = zaichik("topics")
    assert result.code == 2
    told = (
        "argument --connect: not given, and ZAICHIK_CONNECT says: 'nowhere' is not an address; "
        "write HOST:PORT"
    )
    assert told in result.err


@pytest.mark.parametrize("host", ["a" * 64, "a..b", "a\u05d0", "\u2028", "\udcff"])
@pytest.mark.parametrize("words", [["topics"], ["record", "t"]], ids=["topics", "record"])
def test_an_invalid_host_name_is_wrong_usage(zaichik, host, words):
    result = zaichik(*words, "--connect", f"{host}:1")
    assert (result.code, result.err.count("\n"), "Traceback" in result.err) == (2, 1, False)
    assert "is not a host name" in result.err
