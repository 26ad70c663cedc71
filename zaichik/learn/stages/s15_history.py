"""S15: A history without a gap.

Goal: Nothing lost, duplicated, reordered, invented, delivered after its time, or silently missing,
whatever clients do to their connections.

Tested: For five seconds three clients publish and four read, over connections that break at the
worst moments. Everything they see is recorded; then the history is checked, and if there is an
anomaly, the shortest proof of it is shown.

Real systems: This is how Jepsen tests databases and brokers, and how it found acknowledged messages
lost in well-known ones: clients, faults, a history, a checker. No test of a single rule finds what
happens only between two rules.

How: The proof names the offsets. See what your broker did between these events: log every change of
a cursor, and run the same seed again.

Where: docs/understand/semantics.md, Conservation: for each topic and each subscription there are
sums that must add up. Check them in your broker after every step; the bug is in the first step
after which they don't.
"""

from zaichik.learn import docstrings
from zaichik.learn.failure import Failure
from zaichik.learn.history import check, describe, draw
from zaichik.learn.stage import Stage
from zaichik.learn.trial import Trial
from zaichik.learn.workload import Workload

STAGE = Stage.parse(docstrings.of_module(__name__), chapter=14)


@STAGE.check(
    "five seconds of random work leave a history that a correct broker could have produced",
    hint="The anomaly names the broken promise; its proof, the messages to look for in your log.",
    sentences="connect.2 topic.1 publish.1 compaction.2 retention.1 retention.2 ring.1 start.5 "
    "credit.6 lag.1",
)
async def history(trial: Trial) -> None:
    """See workload.py and history.py."""
    workload, broken = Workload(trial), None
    try:
        await workload.run()
    except (Failure, ExceptionGroup) as error:
        broken = error  # the events before it may say more
    anomaly = check(workload.events)
    if anomaly is not None:
        raise Failure(
            f"{anomaly.name}: {anomaly.sentence}",
            excerpt=describe(anomaly.proof),
            drawing=draw(anomaly),
            frames=workload.frames(anomaly.story()),
        )
    if broken is not None:
        raise broken
