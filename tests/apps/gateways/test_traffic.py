"""What goes over connections is counted for each, and for all together."""

import threading

from zaichik.apps.gateways.traffic import Connections, Traffic

GUARD = 30


def test_the_total_has_what_is_open_and_what_has_ended_once_each():
    connections = Connections()
    with connections.counted() as first:
        first.sent_bytes += 5
        with connections.counted() as second:
            second.sent_bytes += 7
            second.received_messages += 1
            assert (len(connections), connections.total().sent_bytes) == (2, 12)
        assert (len(connections), connections.total().sent_bytes) == (1, 12)
        first.sent_bytes += 1
        assert connections.total().sent_bytes == 13
    total = connections.total()
    assert (total.sent_bytes, total.received_messages) == (13, 1)
    assert (len(connections), connections.accepted) == (0, 2)


def test_a_thread_that_asks_while_a_connection_ends_finds_it_once(patchable, monkeypatch):
    """Otherwise a counter would fall, which Prometheus takes for a new start."""
    connections = Connections()
    found = []
    add = Traffic.add

    def add_slowly(self, other):
        if threading.current_thread() is threading.main_thread():
            asking.start()
            # If it need not wait for this to end, it is done by then.
            asking.join(0.2)
        add(self, other)

    asking = threading.Thread(target=lambda: found.append(connections.total().sent_bytes))
    monkeypatch.setattr(Traffic, "add", add_slowly)
    with connections.counted() as traffic:
        traffic.sent_bytes = 5
    asking.join(GUARD)
    assert found == [5]
