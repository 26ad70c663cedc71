"""As in 2020: "is it there?" and "make it" are two steps."""

import anyio.lowlevel


class TopicsOf2020(dict[str, list[str]]):
    """Looks, waits for a lock to write, and makes."""

    async def find(self, name: str) -> list[str]:
        """The topic of that name; a new one, if there is none."""
        if name not in self:
            await anyio.lowlevel.checkpoint()  # for the lock
            self[name] = []
        return self[name]


async def main() -> None:
    topics = TopicsOf2020()
    found = []

    async def come() -> None:
        found.append(await topics.find("orders"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(come)
        tasks.start_soon(come)
    alice, bob = found
    print("Alice and Bob come at once, and read the topic orders")
    topics["orders"].append("two apples")
    print("somebody publishes: two apples")
    print("Alice reads", alice)
    print("Bob reads  ", bob)


anyio.run(main)
