"""A client for programs without an event loop, under its public name.

See `zaichik.client.blocking`.
"""

from zaichik.client.blocking import (
    Client,
    PatternSubscription,
    Producer,
    Subscription,
    WorkMessage,
    WorkSubscription,
    connect,
)

__all__ = [
    "Client",
    "PatternSubscription",
    "Producer",
    "Subscription",
    "WorkMessage",
    "WorkSubscription",
    "connect",
]
