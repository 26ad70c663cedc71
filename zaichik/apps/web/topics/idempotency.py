"""The answers to the last requests that had an `Idempotency-Key`, so that a retry is safe.

A client that has lost its connection, or has had no answer in time, sends its request again with
the same key. If the first one was answered, the answer is repeated; if it is still under way, the
second one waits for it; and if it was given up, the second one sends the same batch under the same
number, which the broker stores once (PUB-4). A key belongs to a user and a topic.

The keys are in memory. When there are too many, the oldest one of the user who has most goes first:
nobody can make those of others be forgotten.
"""

import re
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from zaichik.apps.web.topics.producers import Number
from zaichik.apps.web.topics.statuses import RETRY_S, Refusal

MOST_KEYS = 10_000
MOST_BYTES = 16 * 1024 * 1024  # of answers: those to large batches may be long
MOST_KEY = 255
TURN_S = 6.0  # longer than a request takes that does not wait for another one
_KEY = re.compile(r"[!-~]([ -~]*[!-~])?", re.ASCII)


@dataclass(eq=False, slots=True)
class Attempt:
    """A request, and all that repeat it.

    Attributes:
        digest: what was to be published; a key stands for one thing.
        number: of the batch, from the first attempt to send it on.
        epoch: of the topic then, if it has to be replicated; 0: not known.
        answer: what was answered; empty: nothing yet.
        turn: held by the one request that publishes.
        waiting: how many requests hold it or wait for it.
    """

    digest: bytes
    number: Number | None = None
    epoch: int = 0
    answer: bytes = b""
    turn: anyio.Lock = field(default_factory=anyio.Lock)
    waiting: int = 0


class Idempotency:
    """Remembers answers.

    Args:
        most: how many keys.
    """

    def __init__(self, most: int = MOST_KEYS) -> None:
        self._most = most
        self._count = 0
        self._bytes = 0
        # By user; the oldest key of each is the first.
        self._users: dict[str, OrderedDict[tuple[str, str], Attempt]] = {}

    @asynccontextmanager
    async def turn(self, user: str, topic: str, key: str, digest: bytes) -> AsyncIterator[Attempt]:
        """Returns the attempt of that key, when no other request is at it.

        Args:
            user: whose key it is.
            topic: where to.
            key: as it was sent.
            digest: of what is to be published.

        Raises:
            Refusal: it is no key, or stands for something else, or another request is at it for
                too long.
        """
        if len(key) > MOST_KEY or not _KEY.fullmatch(key):
            raise Refusal(
                "BAD_REQUEST", f"an Idempotency-Key has 1 to {MOST_KEY} printable ASCII characters"
            )
        attempt = self._attempt(user, (topic, key), digest)
        if attempt.digest != digest:
            raise Refusal(
                "IDEMPOTENCY_KEY_REUSED",
                "this Idempotency-Key was sent with something else; each message needs its own",
            )
        attempt.waiting += 1
        try:
            async with _held(attempt.turn):
                yield attempt
        finally:
            attempt.waiting -= 1
            # Nothing was sent, so there is nothing to repeat.
            if attempt.number is None and not attempt.waiting:
                self._forget(user, (topic, key), attempt)

    def keep(self, attempt: Attempt, answer: bytes) -> None:
        """Remember what was answered."""
        attempt.answer = answer
        self._bytes += len(answer)
        while self._bytes > MOST_BYTES and self._forget_oldest():
            pass

    def _attempt(self, user: str, key: tuple[str, str], digest: bytes) -> Attempt:
        attempts = self._users.setdefault(user, OrderedDict())
        attempt = attempts.get(key)
        if attempt is None:
            attempt = Attempt(digest)
            attempts[key] = attempt
            self._count += 1
            if self._count > self._most:
                self._forget_oldest()
        return attempt

    def _forget_oldest(self) -> bool:
        """Returns whether there was one to forget, which no request is at."""
        user = max(self._users, key=lambda user: len(self._users[user]))
        for key, attempt in self._users[user].items():
            if not attempt.waiting:
                self._forget(user, key, attempt)
                return True
        return False

    def _forget(self, user: str, key: tuple[str, str], attempt: Attempt) -> None:
        attempts = self._users.get(user, OrderedDict())
        if attempts.get(key) is attempt:
            del attempts[key]
            self._count -= 1
            self._bytes -= len(attempt.answer)
        if not attempts:
            self._users.pop(user, None)


@asynccontextmanager
async def _held(turn: anyio.Lock) -> AsyncIterator[None]:
    """Hold a lock during the block, if it is free in time.

    Raises:
        Refusal: it is not.
    """
    is_held = False
    with anyio.move_on_after(TURN_S):
        await turn.acquire()
        is_held = True
    if not is_held:
        raise Refusal(
            "NOT_ANSWERED", "the request that this one repeats is still under way", RETRY_S
        )
    try:
        yield
    finally:
        turn.release()
