"""What a client knows of replication: a follower for each topic that somebody waits for."""

# Not compiled: it is used once for each publish, beside a round trip and more.

from anyio.abc import TaskGroup

from zaichik.client.connection import BrokerConnection
from zaichik.client.messages import check_acked_by
from zaichik.client.replication.acknowledgement import Acknowledgement
from zaichik.client.replication.follower import Describing, WatermarkFollower


class Replication:
    """The followers of one client.

    Args:
        connection: the client's.
        tasks: end with the client.
        describe: returns the state of a topic, as `Client.topic` does.
    """

    def __init__(
        self, connection: BrokerConnection, tasks: TaskGroup, describe: Describing
    ) -> None:
        self._connection = connection
        self._tasks = tasks
        self._describe = describe
        self._followers: dict[str, WatermarkFollower] = {}

    async def following(self, topic: str, by: str) -> WatermarkFollower:
        """Returns what follows the watermark of a topic.

        Use it before the next wait: one that nobody uses ends.

        Raises:
            ValueError: `by` acknowledges nothing, or the topic's name is too long.
            NotLossless, NoSuchTopic: messages of the topic cannot be acknowledged like this.
            BrokerError, ConnectionLost: the watermark cannot be followed.
        """
        check_acked_by(by)
        follower = self._followers.get(topic)
        if follower is None or follower.is_over:
            follower = WatermarkFollower(self._connection, topic, by, self._describe)
            self._followers[topic] = follower
            self._tasks.start_soon(self._run, follower)
        await follower.begun()
        return follower

    async def acknowledgement(self, topic: str, by: str) -> Acknowledgement:
        """Returns what waits for messages that are going to be published to the topic.

        Raises:
            Exception: see `following`.
        """
        follower = await self.following(topic, by)
        return follower.acknowledgement()

    async def _run(self, follower: WatermarkFollower) -> None:
        try:
            await follower.run()
        finally:
            if self._followers.get(follower.topic) is follower:
                del self._followers[follower.topic]
