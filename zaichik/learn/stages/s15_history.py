"""S15: A history without a gap.

Goal: Nothing lost, duplicated, reordered, invented, delivered after its time, or missing in silence, whatever clients
do to their connections.

Tested: For five seconds three publish and four read, with connections that break at the worst moments. Everything that
was seen is written down; then the history is judged, and the shortest part of it that proves an anomaly is shown.

Real systems: This is how Jepsen tests databases and brokers, and how it found lost acknowledged messages in well-known
ones: clients, faults, a history, a checker. No test of a single rule finds what only happens between two rules.

How: The proof names the offsets. Look at what your broker did between these events: log every change of a cursor, and
run the same seed again.

Where: docs/semantics.md, Conservation: per topic and per subscription there are sums that must come out even. Count
them in your broker after every step; the first step after which they do not is the bug.
"""

from zaichik.learn.failure import Failed
from zaichik.learn.history import check, describe, draw
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial
from zaichik.learn.workload import Workload

STAGE = Stage.told(__doc__, chapter=14)


@STAGE.check(
    "five seconds of chance leave a history that a correct broker could have produced",
    hint="The name of the anomaly says which promise was broken; its proof, which messages to look for in your log.",
    sentences="connect.2 topic.1 publish.1 compaction.2 retention.1 retention.2 ring.1 start.5 credit.6 lag.1",
)
async def history(trial: Trial) -> None:
    """See workload.py and history.py."""
    workload, broken = Workload(trial), None
    try:
        await workload.run()
    except (Failed, ExceptionGroup) as error:
        broken = error  # what came before it may tell more
    anomaly = check(workload.events)
    if anomaly is not None:
        raise Failed(
            f"{anomaly.name}: {anomaly.sentence}",
            excerpt=describe(anomaly.proof),
            drawing=draw(anomaly),
            frames=workload.frames(anomaly.story()),
        )
    if broken is not None:
        raise broken
