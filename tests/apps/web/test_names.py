"""How a browser writes the names of the page."""

import pytest

from zaichik.apps.web.names import NotAName, PageName

HERE = 8080


def written(text, scheme="http", port=HERE):
    name = PageName.of(text)
    return set(name.hosts(port, scheme)), set(name.origins(port, scheme))


def test_a_host_alone_is_that_host_at_the_usual_port_and_at_the_one_that_is_served():
    hosts, origins = written("broker.example")
    assert hosts == {
        "broker.example",
        "broker.example:80",
        "broker.example:443",
        "broker.example:8080",
    }
    assert origins == {
        "http://broker.example",
        "https://broker.example",
        "http://broker.example:8080",
        "https://broker.example:8080",
    }


def test_a_port_is_that_port_and_is_left_out_where_it_is_the_usual_one():
    assert written("broker.example:9443") == (
        {"broker.example:9443"},
        {"http://broker.example:9443", "https://broker.example:9443"},
    )
    assert written("broker.example:443") == (
        {"broker.example", "broker.example:443"},
        {"https://broker.example", "http://broker.example:443"},
    )


def test_a_scheme_is_that_scheme():
    expected = {"broker.example", "broker.example:443"}, {"https://broker.example"}
    assert written("https://broker.example") == expected
    assert written("HTTPS://Broker.Example/") == expected
    assert written("http://broker.example") == (
        {"broker.example", "broker.example:80"},
        {"http://broker.example"},
    )
    assert written("https://broker.example:9443") == (
        {"broker.example:9443"},
        {"https://broker.example:9443"},
    )


def test_what_is_served_with_tls_is_not_reached_without():
    _, origins = written("broker.example", "https", 8443)
    assert origins == {"https://broker.example", "https://broker.example:8443"}


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("[fe80::1]:9443", "[fe80::1]"),
        ("fe80::1", "[fe80::1]"),
        ("10.0.0.7", "10.0.0.7"),
        ("брокер.example", "xn--90aiopjd.example"),
    ],
)
def test_a_host_is_written_as_a_browser_sends_it(text, host):
    assert PageName.of(text).host == host


@pytest.mark.parametrize(
    "text",
    [
        "",
        "https://",
        "ftp://broker.example",
        "broker.example:0",
        "broker.example:65536",
        "broker.example:http",
        "broker.example/page",
        "ana@broker.example",
        "[::1",
        "a b",
        "x" * 70,
    ],
)
def test_what_is_no_name_is_refused(text):
    with pytest.raises(NotAName, match="is not a name of the page"):
        PageName.of(text)
