"""What goes over connections is counted for each, and for all together."""

from zaichik.apps.gateways.traffic import Connections


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
