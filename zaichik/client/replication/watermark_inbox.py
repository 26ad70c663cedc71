"""The inbox of a subscription to a watermark."""

from zaichik.client.inbox import Inbox
from zaichik_protocol import Subscribed


class WatermarkInbox(Inbox):
    """An inbox that says also when it was made, which may be again."""

    def _made(self, reply: Subscribed) -> None:
        super()._made(reply)
        self._wake()
