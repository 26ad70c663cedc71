"""What a lone call of the blocking client costs, in what can be counted exactly.

See `tests/client/test_costs.py`. The call is made as often as the asynchronous client makes it
there, and by the same coroutines; what it takes beyond that is what it takes to drive them.
"""

from contextlib import contextmanager

from meter import Meter, MeteredSocket, assert_at_most

from zaichik.client import blocking
from zaichik.client import client as client_module
from zaichik.client.blocking import driver as driver_module
from zaichik.net.socket_stream import SocketStream
from zaichik_protocol import Batch

NEVER = 3600  # seconds


@contextmanager
def metered(monkeypatch):
    """A meter, and a client whose event loop does nothing unless told to."""
    meter = Meter()
    raw = MeteredSocket(meter)

    async def connect(_host, _port):
        return SocketStream(raw)

    monkeypatch.setattr(SocketStream, "connect", connect)
    monkeypatch.setattr(client_module, "COMMIT_SECONDS", NEVER)
    monkeypatch.setattr(driver_module, "ATTENDED_SECONDS", NEVER)
    with blocking.connect(reconnect=0) as client:
        client.publish("t", b"x")
        turns = []
        monkeypatch.setattr(
            client._thread.loop, "call_soon_threadsafe", lambda *call, **_: turns.append(call)
        )
        yield meter, client
        monkeypatch.undo()
        assert turns == [], "the event loop was woken"


def test_a_lone_publish_takes_75_calls_three_of_the_system_and_no_turn_of_the_loop(monkeypatch):
    with metered(monkeypatch) as (meter, client), meter.running():
        for _ in range(10):
            client.publish("t", b"x")
    assert_at_most(meter, 10 * 75, sendmsg=10, recv=10)
    assert meter.calls["_Attendant.wait"] == 10, "which is a poll"


def test_a_lone_batch_takes_73_calls_whatever_its_size(monkeypatch):
    with metered(monkeypatch) as (meter, client):
        batch = Batch.of([(b"", b"x")] * 1000)
        client.publish_batch("t", batch)
        with meter.running():
            for _ in range(10):
                client.publish_batch("t", batch)
    assert_at_most(meter, 10 * 73, sendmsg=10, recv=10)
