"""What `zaichik serve` tells systemd: with a socket in the place of systemd's."""

import os
import signal
import socket
import sys

import pytest

from zaichik.cli import service_manager
from zaichik.cli.service_manager import READY, STOPPING


@pytest.fixture
def listening(tmp_path):
    """A service manager's socket, and the name of it that a service is given."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        yield manager, str(tmp_path / "notify")


def test_it_is_told_by_a_datagram(listening, monkeypatch):
    manager, name = listening
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    service_manager.tell(READY)
    assert manager.recv(100) == b"READY=1"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has abstract addresses")
def test_its_address_may_be_abstract(monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0zaichik-test-{os.getpid()}")
        manager.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@zaichik-test-{os.getpid()}")
        service_manager.tell(STOPPING)
        assert manager.recv(100) == b"STOPPING=1"


@pytest.mark.parametrize(
    "name", ["", "/nowhere/notify", "/", "@", "x" * 500, "vsock:2:1", "\udcff"]
)
def test_one_that_cannot_be_told_stops_nothing(name, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    service_manager.tell(READY)


def test_one_that_does_not_read_holds_up_nothing_for_long(listening, monkeypatch):
    manager, name = listening
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    # A full socket is told nothing, and nobody waits.
    monkeypatch.setattr(service_manager, "SECONDS", 0.0)
    for _ in range(1000):
        service_manager.tell(READY)
    assert manager.recv(100) == b"READY=1"


@pytest.mark.unmeasured
def test_a_broker_tells_when_it_serves_and_when_it_stops(listening, start):
    manager, name = listening
    process = start("serve", "--port", "0", "--json", env=os.environ | {"NOTIFY_SOCKET": name})
    assert manager.recv(100) == b"READY=1"
    process.send_signal(signal.SIGTERM)  # it is ready for that, too
    assert manager.recv(100) == b"STOPPING=1"
    assert process.wait() == 0
