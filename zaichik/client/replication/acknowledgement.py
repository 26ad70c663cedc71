"""The acknowledgement of one publish: its messages are replicated, or will never be known to be.

    made ──▶ messages are published ──▶ `confirm` ──▶ the watermark passes them ──▶ `wait` returns
    (the topic has this epoch)                    └─▶ a gap, or another epoch ────▶ `wait` raises

It is made before its messages are published: the epoch that the topic has then is theirs, if the
topic still has it after they are stored.
"""

# Not compiled: others refer to it weakly, which objects of compiled classes do not allow.

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from zaichik.client.messages import BatchResult, PublishResult
from zaichik.client.outcome import Lost
from zaichik.net.wakeup import Wakeup

if TYPE_CHECKING:
    from zaichik.client.replication.follower import WatermarkFollower


class Acknowledgement:
    """What waits for the watermark of one topic. The follower forgets it when nobody holds it.

    Args:
        follower: knows the watermark.
        on_outcome: called once, with what makes the error, or None; it must not fail.

    Attributes:
        epoch: of the topic, when this was made.
        boot: of the broker, when this was made.
        start, stored: the first offset of its messages, and how many are stored.
        end: the watermark that it waits for.
        is_expected: whether its messages are stored, so that these are known.
    """

    def __init__(
        self, follower: "WatermarkFollower", on_outcome: Callable[[Lost | None], None] | None = None
    ) -> None:
        self.epoch = follower.epoch
        self.boot = follower.boot
        self.start = 0
        self.stored = 0
        self.end = 0
        self.is_expected = False
        self._follower = follower
        self._on_outcome = on_outcome
        self._failure: Lost | None = None
        self._settled = Wakeup()

    @property
    def is_settled(self) -> bool:
        """Whether it is known what has become of its messages."""
        return self._settled.is_set()

    def expect(self, start: int, stored: int, epoch: int = 0) -> None:
        """Wait for the watermark to pass these offsets; if none are stored, to come to `start`.

        A message that a window has dropped is replicated when the one that kept it out is, which
        lies below the topic's next offset.

        Args:
            start: the first offset.
            stored: how many messages are stored there.
            epoch: of the topic, if they were stored before this was made; 0: they were not.
        """
        if epoch:
            self.epoch = epoch
        self.start = start
        self.stored = stored
        self.end = start + stored
        self.is_expected = True
        self._follower.add(self)

    def settle(self, failure: Lost | None) -> None:
        """Set the outcome and wake the tasks that wait for it.

        Args:
            failure: makes the error for each of them; None: the messages are replicated.
        """
        self._failure = failure
        self._settled.set()
        if self._on_outcome is not None:
            self._on_outcome(failure)

    async def wait(self) -> None:
        """Returns when the messages are replicated. Any number of tasks may wait.

        Raises:
            ReplicationLost: they are not, or that is not known.
            Exception: why the watermark cannot be followed, in most cases a `ZaichikError`.
        """
        await self._settled.wait()
        if self._failure is not None:
            raise self._failure()

    async def confirm(self, result: PublishResult | BatchResult, epoch: int = 0) -> None:
        """Returns when what was published with that result is replicated.

        Args:
            result: of the publish.
            epoch: see `expect`.

        Raises:
            ReplicationLost: it is not, or that is not known.
            Exception: see `wait`.
        """
        if isinstance(result, BatchResult):
            self.expect(result.first_offset, result.stored, epoch)
        elif result.offset is None:
            # Its result does not say where the topic ended then. It ends there or later now, but
            # not if it was restored since.
            end = await self._follower.end()
            if self.boot == self._follower.boot:
                self.expect(end, 0)
            else:
                self.settle(partial(self._follower.restarted, end))
        else:
            self.expect(result.offset, 1, epoch)
        await self.wait()
