"""zaichik: a tiny message broker to read in an afternoon and run for real."""

from zaichik.broker.clock import ManualClock, SystemClock
from zaichik.broker.server import Server, running_broker, serve

__all__ = ["ManualClock", "Server", "SystemClock", "running_broker", "serve"]
