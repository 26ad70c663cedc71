"""The cost of encoding and decoding the batches of a stream, and nothing else: no socket, no
broker, no task.

Each batch is as large as the producer of zaichik makes it. It is encoded by a publisher, decoded by
a broker, and then, for each subscriber, encoded by the broker and decoded into columns of keys and
payloads by the subscriber.
"""

import time
from typing import Any

from benchmarks.peers.peer import CHUNK, Job
from benchmarks.peers.zaichik import zipf_keys
from zaichik_protocol import REQUESTS, Batch, Frame, FrameDecoder, Messages, Publish, encode

CHUNK_BYTES = 64 * 1024  # of a producer's batch
MAX_FRAME = 2**21


def passed(decoder: FrameDecoder, frame: Frame) -> Any:
    """Returns the frame, encoded and decoded."""
    decoder.receive_data(encode(frame))
    return decoder.next_frame()


def batches(job: Job) -> list[tuple[list[bytes], list[bytes]]]:
    """Returns the keys and payloads of every batch, as a publisher has them."""
    size = max(1, min(CHUNK, CHUNK_BYTES // job.size))
    keys = zipf_keys(job.keys, job.messages) if job.keys else [b""] * job.messages
    payload = b"x" * job.size
    return [
        (some := keys[first : first + size], [payload] * len(some))
        for first in range(0, job.messages, size)
    ]


async def play(job: Job) -> dict[str, float]:
    """Returns messages per second, counted where they would be delivered.

    Raises:
        RuntimeError: messages are missing.
    """
    broker, subscriber = FrameDecoder(REQUESTS, MAX_FRAME), FrameDecoder.for_client()
    pieces = batches(job)
    published = [Batch.of_columns(*piece) for piece in pieces] if job.publishers == 0 else []
    count, begin = 0, time.monotonic()
    for number, piece in enumerate(pieces):
        if published:
            batch = published[number]
        else:
            batch = passed(broker, Publish(1, job.topic, Batch.of_columns(*piece))).batch
        for _ in range(job.subscribers):
            received = passed(subscriber, Messages(1, 0, 0, batch)).batch
            received.keys()
            count += len(received.payloads())
    seconds = time.monotonic() - begin
    if count != job.messages * job.subscribers:
        raise RuntimeError(f"{count} messages came out, not {job.messages * job.subscribers}")
    return {"messages/s": count / seconds}
