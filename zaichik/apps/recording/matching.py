"""The topics that match a pattern, as the broker tells them now: a look at `$topics`.

`$topics` is a table of the topics that there are (PAT-1). It is subscribed to once; each further
look reads only what has changed. While it is read, the broker keeps what is published to a new
topic for some seconds, so that a query has time to come (PAT-3).
"""

from contextlib import AbstractContextManager

from zaichik import DeletionsMissed, EpochChanged, Message, SubscriptionLost, blocking
from zaichik.client.messages import messages_of
from zaichik.client.patterns.pattern import Pattern
from zaichik.client.patterns.records import TOPICS, KnownTopics, record_of
from zaichik_protocol import Messages

RECORDS_CREDIT = 10_000  # of the records that arrive at once: they are small
ATTEMPTS = 3  # to read a table that the broker makes anew meanwhile


class MatchingTopics:
    """The topics that match, as of the last look.

    Args:
        client: connected to the broker.
        pattern: what their names match.

    Attributes:
        there: by name, their epochs.
        unseen: names of topics that have come and gone between two looks; `UNNAMED` if the broker
            does not know which.
    """

    UNNAMED = "some"

    def __init__(self, client: blocking.Client, pattern: Pattern) -> None:
        self.there: dict[str, int] = {}
        self.unseen: list[str] = []
        self._client = client
        self._pattern = pattern
        self._known = KnownTopics()
        # Those that were there at the last look.
        self._shown: dict[str, int] = {}
        self._subscribing: AbstractContextManager[blocking.Subscription[Message]] | None = None
        self._subscription: blocking.Subscription[Message] | None = None

    def look(self) -> None:
        """Take notice of all that has been announced by now.

        Raises:
            BrokerError, ConnectionLost: `$topics` cannot be read.
        """
        self._shown = dict(self.there)
        for attempt in range(ATTEMPTS):
            try:
                self._read()
                break
            except (EpochChanged, SubscriptionLost):
                # The broker has made the table anew, and what was known may be gone.
                self.close()
                if attempt == ATTEMPTS - 1:
                    raise

    def close(self) -> None:
        """Leave `$topics`, before the client is closed. The next look begins from the beginning."""
        subscribing = self._subscribing
        self._subscribing = None
        self._subscription = None
        self._known = KnownTopics()
        self.there.clear()
        if subscribing is not None:
            subscribing.__exit__(None, None, None)

    def _read(self) -> None:
        with self._client.subscribe(TOPICS, start="latest", credit=1) as now:
            epoch, end = now.epoch, now.start
        is_first = self._subscription is None
        subscription = self._subscription or self._begin(epoch)
        if subscription.epoch != epoch:
            raise SubscriptionLost(f"{TOPICS} is another table than before")
        while subscription.next < end:
            for item in subscription.fetch():
                match item:
                    case Messages():
                        self._take(item, is_first=is_first)
                    case DeletionsMissed():
                        # Topics may have come and gone, and what is there is read again.
                        self.unseen.append(self.UNNAMED)
                        self._known = KnownTopics()
                        self.there.clear()
                        subscription.start_over()
                        end = max(end, subscription.live)
                        is_first = True
                        break
                    case _:
                        pass

    def _begin(self, epoch: int) -> blocking.Subscription[Message]:
        self._subscribing = self._client.subscribe(TOPICS, epoch=epoch, credit=RECORDS_CREDIT)
        self._subscription = self._subscribing.__enter__()
        return self._subscription

    def _take(self, frame: Messages, *, is_first: bool) -> None:
        for message in messages_of(frame, TOPICS):
            record = record_of(message)
            if not self._pattern.matches(record.topic):
                continue
            change = self._known.take(record, is_first=is_first)
            # It was announced after the last look, and has gone again.
            is_brief = change.over != 0 and self._shown.get(record.topic) != change.over
            if change.missed or (is_brief and not is_first):
                self.unseen.append(record.topic)
            if record.gone:
                self.there.pop(record.topic, None)
            else:
                self.there[record.topic] = record.epoch
