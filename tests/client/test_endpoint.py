"""An address as one line, which may hold a secret that nothing else repeats."""

import pickle
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zaichik.client.endpoint import Credentials, Endpoint, NotAnAddress, at, endpoint, masked

TOKEN = "zk_" + "Canary-token_" * 3 + "1234"
PIN, OTHER_PIN = "sha256:" + "0a" * 32, "sha256:" + "1b" * 32


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("127.0.0.1:8889", Endpoint("127.0.0.1", 8889)),
        ("zaichik://[::1]:1/", Endpoint("::1", 1)),
        ("zaichiks://broker.example:1", Endpoint("broker.example", 1, True)),
        (f"zaichiks://h:1?pin={PIN.upper().replace('SHA', 'sha')}", Endpoint("h", 1, True, (PIN,))),
        (f"zaichiks://h:1?pin={PIN}&pin={OTHER_PIN}", Endpoint("h", 1, True, (PIN, OTHER_PIN))),
        (f"zaichiks://{TOKEN}@h:1", Endpoint("h", 1, True, (), Credentials("", TOKEN))),
        (f"zaichik://{TOKEN}@h:1", Endpoint("h", 1, False, (), Credentials("", TOKEN))),
        ("zaichiks://ana@h:1", Endpoint("h", 1, True, (), Credentials("ana", ""))),
        ("zaichiks://ana:a%40b:c@h:1", Endpoint("h", 1, True, (), Credentials("ana", "a@b:c"))),
    ],
)
def test_a_line_is_an_address(line, expected):
    assert endpoint(line) == expected
    assert endpoint(expected.line) == expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("h", Endpoint("h", 2)),
        ("::1", Endpoint("::1", 2)),
        ("h:1", Endpoint("h", 1)),
        ("[::1]:1", Endpoint("::1", 1)),
        ("zaichiks://h:1", Endpoint("h", 1, True)),
        (Endpoint("h", 1), Endpoint("h", 1)),
    ],
)
def test_a_host_may_be_the_whole_address(host, expected):
    assert at(host, 2) == expected


@pytest.mark.parametrize("host", ["h:", "h:x", ":1", "[::1]"])
def test_half_an_address_is_neither_a_host_nor_an_address(host):
    with pytest.raises(NotAnAddress):
        at(host, 2)


SECRETS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(SECRETS.filter(bool), SECRETS, st.sampled_from([(), (PIN,), (PIN, OTHER_PIN)]))
def test_a_line_and_back(user, secret, pins):
    user = "u" + user
    made = Endpoint("::1", 8889, True, pins, Credentials(user, secret))
    assert endpoint(made.line) == made


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("http://h:1", "begins with zaichik:// or zaichiks://"),
        (f"{TOKEN}@h:1", "begins with zaichiks://"),
        (f"h:1?pin={PIN}", "begins with zaichiks://"),
        (f"zaichik://h:1?pin={PIN}", "a pin belongs to a certificate"),
        (f"zaichiks://h:1?pin={PIN[:-1]}", "perhaps the line was cut off"),
        (f"zaichiks://h:1?pin={PIN}&pin={PIN}&pin={PIN}", "at most 2"),
        ("zaichiks://h:1?insecure=1", "only pin=sha256:... may follow"),
        (f"zaichiks://{TOKEN[:-1]}@h:1", "perhaps the line was cut off"),
        ("zaichiks://@h:1", "before the @"),
        ("zaichiks://h", "'zaichiks://h' is not an address"),
        (TOKEN, "a token alone does not name its broker; write zaichiks://TOKEN@HOST:PORT"),
        ("zaichiks://h:123456", "'123456' is not a port"),
        ("zaichiks://" + "h" * 64 + ":1", "is not a host name"),
    ],
)
def test_other_lines_are_not(line, problem):
    with pytest.raises(NotAnAddress) as caught:
        endpoint(line)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        f"zaichiks://{TOKEN}@h", f"zaichiks://{TOKEN}", TOKEN, f"{TOKEN}:1", f"{TOKEN}@h:1", f"http://{TOKEN}@h:1",
        f"zaichiks://{TOKEN}x@h:1", f"zaichiks://x:{TOKEN}@h:99999", f"zaichiks://h:{TOKEN}",
        f"zaichiks://{TOKEN}@..:1", f"zaichiks://h:1?pin={TOKEN}", f"zaichiks://h:1?{TOKEN}",
        f"zaichiks://{TOKEN}@h:1@", f"zaichiks://a b {TOKEN}@h",
    ],
)  # fmt: skip
def test_no_error_repeats_a_secret(line):
    with pytest.raises(NotAnAddress) as caught:
        endpoint(line)
    assert "Canary" not in "".join(traceback.format_exception(caught.value))


def test_a_password_with_blanks_is_not_told():
    with pytest.raises(NotAnAddress) as caught:
        endpoint("zaichiks://ana:correct horse@h")
    assert "horse" not in str(caught.value)


@pytest.mark.parametrize("known", [Credentials("", TOKEN), Credentials("ana", TOKEN)])
def test_what_is_shown_of_an_address_has_no_secret(known):
    found = Endpoint("::1", 1, True, (PIN,), known)
    assert str(found) == "zaichiks://[::1]:1"
    assert "Canary" not in f"{found!r}{known!r}{known}"
    assert pickle.loads(pickle.dumps(found)) == found


def test_messages_are_masked():
    assert (
        masked(f"unrecognized arguments: zaichiks://{TOKEN}@h:1")
        == "unrecognized arguments: zaichiks://...@h:1"
    )
    assert masked(f"what is {TOKEN}?") == "what is zk_...?"
