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
        super().__init__(code, text)
        self.code = code
        self.text = text
        self.is_told = is_told

    def __str__(self) -> str:
        """Why, for the log."""
        return self.text
