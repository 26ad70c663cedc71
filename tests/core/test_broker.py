"""What all connections share: the number of the run."""

import json
import secrets

import pytest
from conversation import Conversation, broker_with

from zaichik_protocol import Describe, Hello, Kind


@pytest.mark.parametrize("most", [False, True])
def test_the_number_of_a_run_is_random_and_fits_its_field(monkeypatch, most):
    """Neither 0, nor more than a signed number of 64 bits by one."""
    monkeypatch.setattr(secrets, "randbits", lambda bits: (2**bits - 1) * most)
    client = Conversation(broker_with(), greeted=False)
    (welcome,) = client.ask(Hello(1))
    assert 1 <= welcome.boot <= 2**63
    (page,) = client.ask(Describe(2, Kind.BROKER))
    assert json.loads(page.json)["boot"] == welcome.boot
