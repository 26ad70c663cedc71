"""The phases of a connection, which only ever goes forward through them.

They are the states of the protocol's table (protocol/README.md, section 2), as far as the socket
decides them. What the requests decide is the `Phase` of the connection's `SubscriptionManager`
(`zaichik/core/phase.py`).

    protocol    phase
    new         SECURING, then GREETING
    open        CONVERSING
    closing     CONVERSING, while the manager is closing: what is due is sent
    gone        GONE
"""

from enum import Enum


class ConnectionPhase(Enum):
    """How far a connection has come."""

    SECURING = "the gate has not let the peer in: nothing can be sent to it yet"
    GREETING = "the peer may speak, and must begin with a Hello"
    CONVERSING = "turns carry out requests and send output, to the last frame"
    GONE = "nothing reaches the peer any more; its earlier requests are still carried out"
