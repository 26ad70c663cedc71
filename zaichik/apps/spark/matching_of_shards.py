"""The topics of a cluster that match a pattern: a look at the table of topics of each shard."""

from zaichik import blocking
from zaichik.apps.recording.matching import MatchingTopics
from zaichik.client.cluster.all_turns import ClusterPattern


class MatchingOfShards:
    """The topics that match, as of the last look; see `MatchingTopics`.

    Args:
        client: connected to the cluster.
        pattern: what their names match.

    Attributes:
        unseen: names of topics that have come and gone between two looks.
    """

    def __init__(self, client: blocking.Cluster, pattern: str) -> None:
        self.unseen: list[str] = []
        self._shards = [
            MatchingTopics(client.shard_client(number), ClusterPattern(pattern))
            for number in range(len(client.map.shards))
        ]

    @property
    def there(self) -> dict[str, int]:
        """By name, the epochs of the topics that are there."""
        found: dict[str, int] = {}
        for matching in self._shards:
            found |= matching.there
        return found

    def look(self) -> None:
        """Take notice of all that has been announced by now.

        Raises:
            BrokerError, ConnectionLost: a shard cannot be asked.
        """
        for matching in self._shards:
            matching.look()
            self.unseen += matching.unseen
            matching.unseen = []

    def close(self) -> None:
        """Leave all shards, before the client is closed."""
        for matching in self._shards:
            matching.close()
