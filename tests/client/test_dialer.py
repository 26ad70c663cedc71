"""What a client insists on, if that is said twice."""

import pytest

from zaichik.client.dialer import Dialer
from zaichik.client.endpoint import endpoint
from zaichik.net.tls_settings import client_tls

TOKEN, PIN = "zk_" + "a" * 43, "sha256:" + "0" * 64


def test_there_is_nothing_to_insist_on_without_tls():
    with pytest.raises(ValueError, match="without TLS; write zaichiks://localhost:1"):
        Dialer(endpoint("localhost:1"), client_tls())


def test_a_pin_is_not_forgotten_because_there_is_a_ca_too():
    """Or else a broker that has another certificate would be sent the token."""
    with pytest.raises(ValueError, match="has a pin") as caught:
        Dialer(endpoint(f"zaichiks://{TOKEN}@localhost:1?pin={PIN}"), client_tls())
    assert TOKEN not in str(caught.value)
    for address in ("localhost:1", f"localhost:1?pin={PIN}"):
        Dialer(endpoint(f"zaichiks://{TOKEN}@{address}"), client_tls(pins=[PIN]))
