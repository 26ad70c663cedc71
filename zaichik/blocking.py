"""A client for programs without an event loop, under its public name.

See `zaichik.client.blocking`.
"""

from zaichik.client.blocking import (
    Client,
    Cluster,
    PatternSubscription,
    Producer,
    Subscription,
    WorkMessage,
    WorkSubscription,
    cluster,
    connect,
)

__all__ = [
    "Client",
    "Cluster",
    "PatternSubscription",
    "Producer",
    "Subscription",
    "WorkMessage",
    "WorkSubscription",
    "cluster",
    "connect",
]
