"""What `import zaichik` brings, and what comes later."""

import subprocess
import sys

import pytest

import zaichik

LATER = """
import sys, zaichik
assert "zaichik.client.client" in sys.modules
assert not {"zaichik.core", "zaichik.storage", "zaichik.server"} & sys.modules.keys()
zaichik.serve
assert "zaichik.server.server" in sys.modules
"""


@pytest.mark.unmeasured
def test_a_client_does_not_import_the_broker():
    subprocess.run([sys.executable, "-c", LATER], check=True)


def test_every_public_name_is_there():
    assert all(hasattr(zaichik, name) for name in zaichik.__all__)


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'zaichik' has no attribute 'serv'"):
        zaichik.serv  # noqa: B018 (looking is what is tested)
