"""Why the gateway ends a connection."""

from zaichik.apps.mqtt.packets import ReasonCode


class Ending(Exception):
    """The gateway ends a connection.

    Args:
        code: why, for the client.
        text: why, for the log.
        is_told: whether the client knows already, by CONNACK.
    """

    def __init__(self, code: ReasonCode, text: str, *, is_told: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.is_told = is_told
