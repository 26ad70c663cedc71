"""The dead of shared names: messages that failed too often, or were rejected (SHR-5, SHR-11).

They are jobs, and wait until somebody revives or forgets them. That takes no subscription.
"""

# Not compiled: a class that stays Python inherits from this one.

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from zaichik.base.clock import SECOND_US
from zaichik.client.connection import BrokerConnection
from zaichik.client.errors import UnexpectedReply
from zaichik.client.reports import Report, dead_of
from zaichik_protocol import Dead, DeadAction, DeadPage

DEAD_PAGE = 500


@dataclass(frozen=True, slots=True)
class DeadMessage:
    """A message that is handed out no more, until it is revived.

    Attributes:
        offset: its place in the topic.
        deliveries: how many of its deliveries counted.
        died: when: seconds since 1970.
        reason: why the last delivery failed, for people. It comes from a program: escape it before
            you show it.
        is_readable: whether it is still in the topic. Otherwise it cannot be revived.
    """

    offset: int
    deliveries: int
    died: float
    reason: str
    is_readable: bool


class SharedNames:
    """What a `Client` can do with shared names, and with their dead, without a subscription.

    A name belongs to its user (SHR-10). Who may describe `$broker` can name another one.
    """

    def __init__(self, connection: BrokerConnection) -> None:
        self._connection = connection

    async def dead(self, topic: str, name: str, *, user: str = "") -> list[DeadMessage]:
        """Returns the dead of a shared name, in the order of their offsets.

        Args:
            topic: the name's topic.
            name: the shared name.
            user: whose name it is; "": that of this client.

        Raises:
            NoSuchTopic, NoSuchName: there is no such topic, or it has no shared name like that.
            Forbidden: the name is another user's.
            Unsupported: the broker has no shared names.
        """
        dead: list[DeadMessage] = []
        for page in await self._pages(Dead(0, topic, name, user, DeadAction.LIST)):
            dead += map(_dead_message, dead_of(page.json))
        return dead

    async def revive(
        self, topic: str, name: str, offsets: Iterable[int] | None = None, *, user: str = ""
    ) -> int:
        """Returns how many dead messages are handed out again, as if they had never failed.

        It may be fewer than were asked for: one that is gone from the topic stays dead, and no more
        are revived than may be open at a time. If the connection is lost meanwhile, those of an
        attempt without an answer are not in the number.

        Args:
            topic: the name's topic.
            name: the shared name.
            offsets: which; None: all.
            user: whose name it is; "": that of this client.

        Raises:
            NoSuchTopic, NoSuchName, Forbidden, Unsupported: see `dead`.
        """
        return await self._act(DeadAction.REVIVE, topic, name, offsets, user)

    async def forget_dead(
        self, topic: str, name: str, offsets: Iterable[int] | None = None, *, user: str = ""
    ) -> int:
        """Returns how many dead messages were forgotten: they are never handed out again.

        Args:
            topic: the name's topic.
            name: the shared name.
            offsets: which; None: all.
            user: whose name it is; "": that of this client.

        Raises:
            NoSuchTopic, NoSuchName, Forbidden, Unsupported: see `dead`.
        """
        return await self._act(DeadAction.FORGET, topic, name, offsets, user)

    async def forget_name(self, topic: str, name: str, *, user: str = "") -> None:
        """Forget a shared name, with all that is open or dead in it (SHR-9).

        The next worker of that name begins afresh. If the connection is lost meanwhile and the name
        is gone afterwards, that counts as success.

        Raises:
            NotEmpty: it has workers.
            NoSuchTopic, NoSuchName, Forbidden, Unsupported: see `dead`.
        """
        number = self._connection.next_id()
        request = Dead(number, topic, name, user, DeadAction.FORGET_NAME)
        await self._connection.request(request, DeadPage)

    async def _act(
        self, action: DeadAction, topic: str, name: str, offsets: Iterable[int] | None, user: str
    ) -> int:
        """Returns how many messages an action was done to."""
        requests = [Dead(0, topic, name, user, action)]
        if offsets is not None:
            requests = [
                Dead(0, topic, name, user, action, offsets=part, selected=True)
                for part in _in_parts(sorted(offsets))
            ]
        done = 0
        for request in requests:
            for page in await self._pages(request):
                done += page.done
        return done

    async def _pages(self, request: Dead) -> list[DeadPage]:
        """Returns the answers to a request, and to those that go on where it has stopped."""
        pages: list[DeadPage] = []
        first = 0
        while True:
            number = self._connection.next_id()
            asked = replace(request, id=number, from_offset=first, count=DEAD_PAGE)
            page = await self._connection.request(asked, DeadPage)
            pages.append(page)
            # The second: no more can be revived now.
            if not page.more or (request.action == DeadAction.REVIVE and page.next == first):
                return pages
            # It would never end.
            if page.next <= first:
                problem = f"more follow, and goes on at offset {page.next}, not beyond {first}"
                raise UnexpectedReply(f"the broker reported that {problem}")
            first = page.next


def _dead_message(row: Report) -> DeadMessage:
    died = row["died_us"] / SECOND_US
    return DeadMessage(row["offset"], row["deliveries"], died, row["reason"], row["is_readable"])


def _in_parts(offsets: list[int]) -> Iterator[tuple[int, ...]]:
    """Returns offsets in parts that a request has room for."""
    rest = iter(offsets)
    while part := tuple(islice(rest, DEAD_PAGE)):
        yield part
