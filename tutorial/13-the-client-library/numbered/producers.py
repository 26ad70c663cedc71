"""Producers: what is sent twice is stored once."""

from collections import deque

from errors import (
    INVALID_FIELD,
    PRODUCER_UNKNOWN,
    SEQUENCE_GAP,
    Refused,
    require,
)

KEPT = 64  # answers of each producer

Answer = bytes | Refused


class Producer:
    """Somebody who numbers what it sends: 0, 1, 2 ..."""

    def __init__(self) -> None:
        self.next = 0
        self._answers: deque[Answer] = deque(maxlen=KEPT)

    def keep(self, answer: Answer) -> None:
        """The next number has been used, and this was the answer."""
        self.next += 1
        self._answers.append(answer)

    def again(self, sequence: int) -> bytes:
        """The answer that this sequence number got."""
        age = self.next - sequence  # 1 is the last one
        good = age <= len(self._answers)
        require(good, INVALID_FIELD, "sequence", "that was too long ago")
        answer = self._answers[-age]
        if isinstance(answer, Refused):
            raise answer
        return answer


class Producers(dict[int, Producer]):
    """All known producers, by their ids."""

    def find(self, producer_id: int, sequence: int) -> Producer:
        """The producer of that id; a new one begins with sequence 0."""
        good = producer_id in self or sequence == 0
        require(good, PRODUCER_UNKNOWN, "producer", "begin with sequence 0")
        producer = self.setdefault(producer_id, Producer())
        good = sequence <= producer.next
        require(good, SEQUENCE_GAP, "sequence", f"{producer.next} is next")
        return producer
