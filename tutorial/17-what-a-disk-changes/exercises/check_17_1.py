"""Questions for exercise 17.1."""

from zaichik.learn.exercise import Exercise, must

EXERCISE = Exercise(
    "What a power cut may take",
    hints=(
        (
            "A written message is in one of three states: it waits for a sync, it's safe, or nobody knows. An answer "
            "changes nothing about that. So walk along the history and keep a set for each state you need."
        ),
        (
            "A sync that succeeds makes everything safe that waits for it, and nothing waits any more. A sync that "
            "fails makes nothing safe, and after it nothing waits any more either: the system counts that data as "
            "written, so that the next sync won't touch it. At the end, compare the answers with what's safe."
        ),
    ),
)


@EXERCISE.asks("what was answered without a sync may be gone", hint="Written isn't synced. What does a sync change?")
def unsynced(answer):
    history = [("write", 1), ("sync", True), ("answer", 1), ("write", 2), ("answer", 2)]
    must(answer.may_be_gone(history), [2], f"after {history}")


@EXERCISE.asks(
    "an answer that came too early was right in the end", hint="Only what's on the disk when the power fails counts."
)
def early(answer):
    history = [("write", 1), ("answer", 1), ("write", 2), ("answer", 2), ("sync", True)]
    must(answer.may_be_gone(history), [], f"after {history}")


@EXERCISE.asks("nobody misses what was never answered", hint="A message without an answer isn't acknowledged.")
def unanswered(answer):
    history = [("write", 1), ("write", 2), ("answer", 2), ("write", 3)]
    must(answer.may_be_gone(history), [2], f"after {history}")


@EXERCISE.asks(
    "a sync that succeeds later saves nothing",
    hint="The first sync failed, and the second one succeeded. Has it written message 1? (Look at sync_again.)",
)
def again(answer):
    history = [
        ("write", 1),
        ("sync", False),
        ("sync", True),
        ("answer", 1),
        ("write", 2),
        ("sync", True),
        ("answer", 2),
    ]
    must(answer.may_be_gone(history), [1], f"after {history}")


@EXERCISE.asks("in the order of the answers", hint="Not in the order in which they were written.")
def order(answer):
    history = [("write", 1), ("write", 2), ("write", 3), ("answer", 3), ("answer", 1)]
    must(answer.may_be_gone(history), [3, 1], f"after {history}")
