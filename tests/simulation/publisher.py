"""A publisher: batches in bursts, several under way at once, and after a cut it comes back with new ones."""

import trio

from .client import Lost, connected

KEYS = [b"", b"", b"a", b"b", b"c", b"d" * 30]


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
        self._left = self.random.randint(20, 80)  # batches
        self._serial = 0

    async def run(self):
        """Publish all there is, on as many connections as it takes."""
        while self._left:
            try:
                weather, cut_after = self.world.weather(self.random), self.world.cut_after(self.random)
                async with connected(self.world, self.name, self.random, weather) as client:
                    with trio.move_on_after(cut_after) as cut:
                        await client.hello()
                        await self._publish(client)
                        await client.close()
                    if cut.cancelled_caught:
                        client.socket.cut()
            except Lost:
                if self.world.is_stopping:
                    return
                await trio.sleep(self.random.choice([0, 0.5, 3]))

    async def _publish(self, client):
        random = self.random
        while self._left:
            asked = []
            for _ in range(min(self._left, random.choice([1, 1, 1, 2, 5, 20]))):
                silent = random.random() < 0.05
                self._left -= 1
                number, _ = await client.publish(random.choice(self._topics), self._messages(), silent=silent)
                asked.append(number)
            for number in filter(None, asked):
                await client.answer(number)
            await trio.sleep(random.choice([0, 0.1, 0.5, 1, 2.5, 20, 120]))

    def _messages(self):
        random = self.random
        messages = []
        for _ in range(random.choice([1, 1, 2, 3, 8, 16])):
            self._serial += 1
            size = random.choice([0, 3, 20, 60, 100])
            messages.append(
                (random.choice(KEYS), b"%s/%d " % (self.name.encode(), self._serial) + random.randbytes(size))
            )
        if random.random() < 0.05:
            messages = [(b"", messages[0][1] + random.randbytes(1500))]
        return messages
