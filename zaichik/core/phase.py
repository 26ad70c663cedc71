"""The phases of a conversation, in their order: there is no way back.

    NEW ──Hello──▶ OPEN ──▶ DRAINING ──▶ STOPPING ──▶ CLOSING

Any of them may be left out, but the last. `protocol/README.md` has the first two and the last as
`new`, `open` and `closing`; a broker that stops puts the other two in between, for which there is
no request and no reply.
"""

from enum import Enum, auto


class Phase(Enum):
    """What a connection's conversation is about.

    Attributes:
        NEW: no Hello has been accepted yet.
        OPEN: requests are carried out, and messages are delivered.
        DRAINING: the broker is about to stop (CLO-2): no more requests are carried out.
        STOPPING: the broker stops: every message that the client has credit for is sent, and then a
            GoAway.
        CLOSING: there are no subscriptions any more; what is due is sent, and then the socket can
            be closed.
    """

    NEW = auto()
    OPEN = auto()
    DRAINING = auto()
    STOPPING = auto()
    CLOSING = auto()
