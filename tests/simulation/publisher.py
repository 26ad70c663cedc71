"""A publisher: batches in bursts, several under way at once, and after a cut it comes back.

Half of them number their batches (PUB-4): what was not answered they send again, with the same
number, until it is answered. The others never send anything twice: of what was not answered they do
not know what became of it.
"""

import trio

from zaichik_protocol import Batch, Error, ErrorCode

from .client import Lost, connected
from .topic_ledger import SentBatch
from .trace import Anomaly

KEYS = [b"", b"", b"a", b"b", b"c", b"d" * 30]
FULL = {
    ErrorCode.TOPIC_FULL,
    ErrorCode.TABLE_FULL,
    ErrorCode.STORAGE_FULL,
    ErrorCode.SEQUENCE_GAP,
}
# seconds a topic may be full: until the last reader is found to be gone, and its name forgotten
LONGEST_REFUSED = 400


class Publisher:
    """One of them.

    Args:
        world: where it publishes.
        name: its name, which also decides what it does.
        topics: where to.
    """

    def __init__(self, world, name, topics):
        self.world = world
        self.name = name
        self.random = world.random(name)
        self._topics = topics
        self._left = self.random.randint(20, 80) // (3 if world.machine else 1)  # batches
        self._serial = 0
        self._is_numbered = self.random.random() < 0.5
        self._producers, self._sequences, self._used = {}, {}, {}  # by topic
        for topic in topics:
            self._begin(topic)
        self._unanswered = {}  # topic and sequence: batch
        self._asked = {}  # number of the request: topic and sequence
        self._boot = 1

    def _begin(self, topic):
        """Take a new number."""
        self._producers[topic] = self.random.getrandbits(64) | 1
        self._sequences[topic] = 0

    async def run(self):
        """Publish all there is, on as many connections as it takes."""
        while self._left or self._unanswered:
            try:
                weather, cut_after = (
                    self.world.weather(self.random),
                    self.world.cut_after(self.random),
                )
                async with connected(self.world, self.name, self.random, weather) as client:
                    with trio.move_on_after(cut_after) as cut:
                        self._asked = {}
                        self._meet((await client.hello()).boot)
                        await self._publish(client)
                        await client.close()
                    if cut.cancelled_caught:
                        client.socket.cut()
            except Lost:
                if self.world.is_stopping:
                    return
                await trio.sleep(self.random.choice([0, 0.5, 3]))

    def _meet(self, boot):
        """After a restart, topics in memory are other topics: what was sent to them and not
        answered is gone, too.
        """
        lost = [topic for topic in self._topics if not self.world.topics[topic].is_durable]
        if boot != self._boot:
            self._boot = boot
            self._unanswered = {
                place: batch for place, batch in self._unanswered.items() if place[0] not in lost
            }
            for topic in lost:
                self._begin(topic)

    async def _publish(self, client):
        random = self.random
        await self._send_again(client)
        while self._left:
            asked = []
            for _ in range(min(self._left, random.choice([1, 1, 1, 2, 5, 20]))):
                self._left -= 1
                topic, messages = random.choice(self._topics), self._messages()
                if self._is_numbered:
                    asked.append(
                        await self._send_numbered(client, *self._new_number(topic, messages))
                    )
                else:
                    silent = random.random() < 0.05
                    asked.append(await client.publish(topic, messages, silent=silent, expects=FULL))
            if random.random() < 0.05:  # cut off between the request and the answer
                await trio.sleep(random.choice([0, 0.05]))
                client.socket.cut()
                raise Lost("cut")
            for number in filter(None, asked):
                self._take(await client.answer(number), number)
            await self._send_again(client)
            await trio.sleep(random.choice([0, 0.1, 0.5, 1, 2.5, 20, 120]))

    def _new_number(self, topic, messages):
        now = trio.current_time()
        if now - self._used.get(topic, now) > self.world.settings.producer_ttl / 2:
            self._begin(topic)  # the broker may forget it any time
        self._used[topic] = now
        sequence = self._sequences[topic]
        self._sequences[topic] += 1
        sender, size = self._producers[topic], len(Batch.of(messages).data)
        self._unanswered[topic, sequence] = SentBatch(messages, size, sender, sequence)
        return topic, sequence

    async def _send_numbered(self, client, topic, sequence):
        batch, producer = self._unanswered[topic, sequence], self._producers[topic]
        number = await client.publish(
            topic, batch.messages, batch=batch, producer=producer, sequence=sequence, expects=FULL
        )
        self._asked[number] = topic, sequence
        return number

    async def _send_again(self, client):
        """Send all that was not answered again, in order, until it is."""
        patience = trio.current_time() + LONGEST_REFUSED
        while self._unanswered:
            if trio.current_time() > patience:
                raise Anomaly(
                    "P5",
                    f"{self.name} cannot publish {list(self._unanswered)} for {LONGEST_REFUSED} s",
                )
            for number in [
                await self._send_numbered(client, *place) for place in list(self._unanswered)
            ]:
                self._take(await client.answer(number), number)
            await trio.sleep(self.random.choice([0.1, 1, 5]) if self._unanswered else 0)

    def _take(self, reply, number):
        if not self._is_numbered:
            return
        # What a table has no room for has used its number up (TAB-1).
        if not isinstance(reply, Error) or reply.code == ErrorCode.TABLE_FULL:
            del self._unanswered[self._asked.pop(number)]

    def _messages(self):
        random = self.random
        messages = []
        for _ in range(random.choice([1, 1, 2, 3, 8, 16])):
            self._serial += 1
            size = random.choice([0, 3, 20, 60, 100])
            payload = b"%s/%d " % (self.name.encode(), self._serial) + random.randbytes(size)
            messages.append((random.choice(KEYS), payload))
        if random.random() < 0.05:
            messages = [(b"", messages[0][1] + random.randbytes(1500))]
        return messages
