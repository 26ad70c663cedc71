"""Workers of a durable queue that are killed, stopped and cut off, and its broker that is killed.

Each worker is a process behind a proxy of its own. Some jobs fail, some kill their worker. What is
done to whom and when, and which jobs there are, follows from a seed.
"""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
from cutting_proxy import CuttingProxy, cutting_proxy
from durable_broker import DurableBroker
from served import GUARD
from work_ledger import (
    ACTS_SECONDS,
    DEADLY,
    DOOMED,
    FAILS,
    REJECTED,
    Disturbance,
    Process,
    WorkLedger,
)
from worker_program import MAX_DELIVERIES, NAME, TOPIC

import zaichik
from zaichik.apps.work.queue_state import state_of

JOBS_AT_A_TIME = (1, 1, 2, 5)  # of each worker
KINDS = {
    "plain": 800,
    "slow": 100,
    "flaky": 40,
    "returned": 30,
    FAILS: 20,
    REJECTED: 8,
    DEADLY: 2,
}
MOST_PUBLISHED = 300  # at once
LONGEST_STOP = 6.0  # seconds: more than a job's time-out
LONGEST_CUT = 4.0  # seconds: more than a lost connection may stay away (SHR-4a)
BYTES_TO_A_CUT = 100_000
SMALL = {"log_bytes": 1 << 30, "segment_bytes": 64 * 1024}  # so that there are many files
PROGRAM = Path(__file__).with_name("worker_program.py")
_LOOK_SECONDS = 0.05


class Worker:
    """A worker, and the one that takes its place when it is killed.

    Args:
        slot: its number.
        proxy: what it connects to.
        folder: where it writes.

    Attributes:
        slot, proxy: see above.
        process: its present life, for the ledger.
    """

    def __init__(self, slot: int, proxy: CuttingProxy, folder: Path) -> None:
        self.slot = slot
        self.proxy = proxy
        self.process = Process(slot, -1)
        self._folder = folder
        self._child: subprocess.Popen[bytes] | None = None

    def start(self, ledger: WorkLedger) -> None:
        """Begin a life."""
        self.process = Process(self.slot, self.process.life + 1)
        stem = f"worker-{self.slot}-{self.process.life}"
        path = self._folder / f"{stem}.txt"
        place = [str(self.proxy.port), str(JOBS_AT_A_TIME[self.slot]), str(path)]
        with (self._folder / f"{stem}.log").open("w") as log:
            self._child = subprocess.Popen([sys.executable, str(PROGRAM), *place], stderr=log)
        ledger.follow(self.process, path)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._child is not None
        self._child.send_signal(number)

    @property
    def has_ended(self) -> bool:
        """Whether it was killed.

        Raises:
            AssertionError: it has ended by itself.
        """
        assert self._child is not None
        code = self._child.poll()
        if code is None:
            return False
        log = self._folder / f"worker-{self.slot}-{self.process.life}.log"
        assert code == -signal.SIGKILL, (
            f"worker {self.process} ended with {code}: {log.read_text()}"
        )
        return True

    def end(self) -> None:
        """End it for good."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()


class Workforce:
    """The broker, its workers, and who disturbs them.

    Args:
        folder: for all files.
        seed: of all that is random.

    Attributes:
        broker, ledger: see there.
        published: how many jobs there are.
        dead: the deliveries that have counted of each message that is dead, by its offset.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.broker = DurableBroker(folder / "data")
        self.ledger = WorkLedger()
        self.published = 0
        self.dead: dict[int, int] = {}
        self._folder = folder
        self._seed = seed
        self._random = random.Random(seed)
        self._workers: list[Worker] = []

    async def run(self, rounds: int) -> None:
        """Disturb everybody that often in each way, then let them finish, and judge."""
        self.broker.start()
        try:
            async with AsyncExitStack() as stack:
                client = await stack.enter_async_context(zaichik.connect(port=self.broker.port))
                await client.create_topic(
                    TOPIC, durable=True, retention_ttl="forever", overflow="reject", **SMALL
                )
                await self._start_workers(stack)
                producer = await stack.enter_async_context(client.producer(TOPIC))
                await self._publish(producer, [*KINDS])
                await self._rounds(rounds, producer)
                await self._finish(client)
                await self._go_undisturbed(client, producer)
            self._judge()
        finally:
            self.broker.close()

    async def _start_workers(self, stack: AsyncExitStack) -> None:
        for slot in range(len(JOBS_AT_A_TIME)):
            proxy = await stack.enter_async_context(
                cutting_proxy(
                    self.broker.port, seed=self._seed * 100 + slot, at_most=BYTES_TO_A_CUT
                )
            )
            worker = Worker(slot, proxy, self._folder)
            stack.callback(worker.end)
            worker.start(self.ledger)
            self._workers.append(worker)

    async def _rounds(self, rounds: int, producer: zaichik.Producer) -> None:
        ways = [self._kill, self._stop, self._cut, self._crash]
        for _ in range(rounds):
            self._random.shuffle(ways)
            for disturb in ways:
                count = self._random.randint(1, MOST_PUBLISHED)
                await self._publish(producer, self._choose(KINDS, count))
                await self._wait(self._random.uniform(0.0, 0.5))
                await disturb()
                # Some of them take seconds to be tried.
                goal = self.published - MOST_PUBLISHED
                await self._until(lambda goal=goal: self.ledger.tried >= goal)

    async def _go_undisturbed(self, client: zaichik.Client, producer: zaichik.Producer) -> None:
        """Have jobs done that nobody disturbs: once, or those that fail as often as they may."""
        over = max(it.end for it in self.ledger.disturbances) + ACTS_SECONDS
        await self._until(lambda: time.monotonic() > over)
        kinds = {kind: weight for kind, weight in KINDS.items() if kind != DEADLY}
        await self._publish(producer, [*kinds, *self._choose(kinds, MOST_PUBLISHED)])
        await self._finish(client)

    def _choose(self, kinds: dict[str, int], count: int) -> list[str]:
        return self._random.choices([*kinds], [*kinds.values()], k=count)

    async def _publish(self, producer: zaichik.Producer, kinds: list[str]) -> None:
        for kind in kinds:
            await producer.send(f"{self.published} {kind}".encode())
            self.published += 1
        await producer.flush()

    # -- what is done to them --------------------------------------------------------------------

    async def _kill(self) -> None:
        worker = self._random.choice(self._workers)
        at = time.monotonic()
        worker.signal(signal.SIGKILL)
        self._note("killed", at, worker, worker.process.life)

    async def _stop(self) -> None:
        worker = self._random.choice(self._workers)
        at = time.monotonic()
        worker.signal(signal.SIGSTOP)
        await self._wait(self._random.uniform(0.0, LONGEST_STOP))
        worker.signal(signal.SIGCONT)
        self._note("stopped", at, worker)

    async def _cut(self) -> None:
        worker = self._random.choice(self._workers)
        at = time.monotonic()
        worker.proxy.cut()
        await self._wait(self._random.uniform(0.0, LONGEST_CUT))
        worker.proxy.is_open = True
        self._note("cut", at, worker)

    async def _crash(self) -> None:
        at = time.monotonic()
        await anyio.to_thread.run_sync(self.broker.kill)
        await anyio.to_thread.run_sync(self.broker.start)
        self.ledger.disturbances.append(Disturbance("crashed", at, time.monotonic()))

    def _note(self, kind: str, since: float, worker: Worker, life: int = -1) -> None:
        self.ledger.disturbances.append(
            Disturbance(kind, since, time.monotonic(), worker.slot, life)
        )

    # -- waiting ---------------------------------------------------------------------------------

    def _look(self) -> None:
        """Read what was written, and have others take the places of those that were killed."""
        for worker in self._workers:
            if worker.has_ended:
                self.ledger.read()
                self._note_suicide(worker.process)
                worker.start(self.ledger)
        self.ledger.read()

    def _note_suicide(self, process: Process) -> None:
        for delivery in self.ledger.waiting([process]):
            if delivery.kind == DEADLY:
                self.ledger.disturbances.append(
                    Disturbance(
                        "killed", delivery.began, time.monotonic(), process.slot, process.life
                    )
                )

    async def _wait(self, seconds: float) -> None:
        """Let time pass: what is tested is that it does."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._look()
            await anyio.sleep(min(_LOOK_SECONDS, seconds))

    async def _until(self, holds: Callable[[], bool]) -> None:
        with anyio.fail_after(2 * GUARD):
            while not holds():
                self._look()
                await anyio.sleep(_LOOK_SECONDS)

    # -- the end ---------------------------------------------------------------------------------

    async def _finish(self, client: zaichik.Client) -> None:
        """Have everything done, but what is bound to die; others that did are revived."""
        innocent: list[int] = []
        while True:
            await self._settle_down(client)
            dead = await client.dead(TOPIC, NAME)
            innocent = [it.offset for it in dead if self.ledger.kind_at(it.offset) not in DOOMED]
            if not innocent:
                self.dead = {it.offset: it.deliveries for it in dead}
                return
            assert await client.revive(TOPIC, NAME, innocent) == len(innocent)

    async def _settle_down(self, client: zaichik.Client) -> None:
        with anyio.fail_after(4 * GUARD):
            while True:
                self._look()
                state = await state_of(client, TOPIC, NAME)
                if state is not None and not state.left:
                    break
                await anyio.sleep(_LOOK_SECONDS)
        living = [worker.process for worker in self._workers]
        await self._until(lambda: not self.ledger.waiting(living))

    def _judge(self) -> None:
        for worker in self._workers:
            for at in worker.proxy.cut_at:
                self.ledger.disturbances.append(Disturbance("cut", at, at, worker.slot))
        self.ledger.check(self.published, self.dead, MAX_DELIVERIES)
