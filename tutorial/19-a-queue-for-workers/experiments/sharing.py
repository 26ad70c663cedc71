"""Packers: clients that share the name of a queue."""

from typing import Any

from zaichik.learn.lab import Broker
from zaichik.learn.wire import Frame

SHARED = 2  # a flag of Subscribe
DONE, RETRY = 0, 1
ONE_AT_A_TIME = {
    "flags": SHARED,
    "name": "packers",
    "credit": 1,
    "timeout_ms": 0,  # as long as it takes
    "max_deliveries": 0,  # as often as it takes
    "tickets": [],
}


class Packer:
    """One of those who pack the orders."""

    def __init__(self, broker: Broker, name: str, **how: Any) -> None:
        self.name = name
        self.client = broker.client()
        self.id = self.client.subscribe("orders", **ONE_AT_A_TIME | how)

    def take(self, seconds: float = 5) -> Frame:
        """Wait for an order."""
        return self.client.frame(seconds)

    def settle(self, order: Frame, outcome: int) -> bool:
        """Say what has become of an order. Returns whether that was late."""
        reply = self.client.ask(
            "Settle",
            subscription=self.id,
            outcome=outcome,
            tickets=[order["ticket"]],
        )
        return bool(reply["late"])

    def go_home(self) -> None:
        """Pack no more."""
        self.client.ask("Unsubscribe", subscription=self.id)
