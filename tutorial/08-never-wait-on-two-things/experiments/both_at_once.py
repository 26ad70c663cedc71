"""The bell rings and a command comes, in the same moment.

Run it after "Type: whichever comes first".
"""

import os

import anyio

os.environ["PORT"] = "0"  # broker.py wants one, and isn't started here
from broker import either


async def main() -> None:
    put, commands = anyio.create_memory_object_stream[str](1)
    bell = anyio.Event()

    async def both() -> None:
        await anyio.wait_all_tasks_blocked()  # until `either` waits
        bell.set()
        put.send_nowait("two apples, please")
        print("the bell rings, and a command comes: two apples, please")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(both)
        came = await either(bell.wait, commands.receive)
    print("either returns:", came)
    left = commands.statistics().current_buffer_used
    print("commands that are still there:", left)


anyio.run(main)
