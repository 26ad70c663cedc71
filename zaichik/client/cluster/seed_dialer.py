"""Opens streams to a broker that somebody has named as one of a cluster."""

# Not compiled: it runs once in a connection, so there is nothing to gain.

from zaichik.client.dialer import Dialer


class SeedDialer(Dialer):
    """The way to a broker of a cluster, before its map is known."""

    # A node that starts serves nothing before ZooKeeper has answered.
    advice = (
        "Start one with `zaichik cluster serve`; if that runs, its output says what it waits for"
    )
