"""The file with more settings of Kafka's client."""

import pytest

from zaichik.apps.replication.errors import CannotReplicate
from zaichik.apps.replication.options import NotOptions, options_in
from zaichik.apps.replication.servers import Servers


def test_names_and_values():
    text = "# a login\nsasl.username = me\n\n  sasl.password=a=b#c \nssl.ca.location=\n"
    assert options_in(text) == {
        "sasl.username": "me",
        "sasl.password": "a=b#c",
        "ssl.ca.location": "",
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a=1\nmy secret\n", "line 2 is not NAME=VALUE"),
        ("=1", "line 1 is not"),
        ("a=1\na=2", "line 2 names a again"),
    ],
)
def test_what_is_refused(text, problem):
    with pytest.raises(NotOptions, match=problem) as caught:
        options_in(text)
    assert "secret" not in str(caught.value)


def test_what_is_the_bridges_own_is_refused():
    with pytest.raises(CannotReplicate, match=r"acks, transactional\.id cannot be set"):
        Servers("one:1", {"transactional.id": "mine", "acks": "1", "client.id": "x"})
