"""Questions for exercise 18.1."""

from zaichik.learn.exercise import Exercise, must

EXERCISE = Exercise(
    "A copy of a table",
    hints=(
        (
            "Three things can come with a message: a value, a tombstone (a key, and an empty payload), or a message "
            "without a key, which is none of the table's. And each of them brings you nearer to what was there when "
            "you began, whatever it is."
        ),
        (
            "The last message that was there has the offset live - 1, or, if it has been superseded since, you get a "
            "later one. So compare the offset of each message with that. If live is 0, there was nothing. And to begin "
            "again is to do what `__init__` does."
        ),
    ),
)


def _copy(answer, live, *messages):
    """A copy, and what it was given: pairs at the offsets from 0 on, None for a hole."""
    copy = answer.Copy(live)
    for offset, message in enumerate(messages):
        if message:
            copy.on_message(offset, *message)
    return copy


@EXERCISE.asks("a copy has the last value of each key", hint="A message with a key replaces what the copy has for it.")
def last(answer):
    copy = _copy(answer, 0, (b"apple", b"30"), (b"pear", b"45"), (b"apple", b"35"))
    must(copy.values, {b"apple": b"35", b"pear": b"45"}, "the values after apple 30, pear 45, apple 35")


@EXERCISE.asks(
    "a tombstone deletes its key",
    hint="A key with an empty payload isn't a fruit that costs nothing. And it may be one that you never had.",
)
def deleted(answer):
    copy = _copy(answer, 0, (b"apple", b"30"), (b"pear", b"45"), (b"pear", b""), (b"plum", b""))
    must(copy.values, {b"apple": b"30"}, "the values after apple 30, pear 45, and tombstones for pear and plum")


@EXERCISE.asks("messages without a key aren't values", hint='b"" can be a key of a dict, but it is none of a table.')
def no_key(answer):
    copy = _copy(answer, 0, (b"", b"hello"), (b"apple", b"30"), (b"", b""))
    must(copy.values, {b"apple": b"30"}, "the values after apple 30 and two messages without a key")


@EXERCISE.asks(
    "it's exact when it has all that was there",
    hint="Don't count messages: there are holes. Look at their offsets. And what if there was nothing?",
)
def exact(answer):
    must(_copy(answer, 0).is_exact, True, "is_exact of a copy of an empty table, at once")
    messages = (None, (b"pear", b"45"), None, None, (b"apple", b"35"))
    must(_copy(answer, 5, *messages[:4]).is_exact, False, "is_exact with live 5, after offset 1")
    must(_copy(answer, 5, *messages).is_exact, True, "is_exact with live 5, after offsets 1 and 4")
    superseded = (None, (b"pear", b"45"), None, None, None, None, (b"apple", b"40"))
    must(_copy(answer, 5, *superseded).is_exact, True, "is_exact with live 5, after offsets 1 and 6")
    copy = _copy(answer, 1, (b"", b"hello"), (b"apple", b"30"))
    must(copy.is_exact, True, "is_exact with live 1, after a message without a key at 0, and another one")


@EXERCISE.asks(
    "after DeletionsMissed it begins again",
    hint="What has been deleted unseen can be anything that you hold. And how exact is a copy that has just begun?",
)
def again(answer):
    copy = _copy(answer, 2, (b"apple", b"30"), (b"pear", b"45"))
    copy.on_missed(6)
    must((copy.values, copy.is_exact), ({}, False), "values and is_exact after DeletionsMissed, with live 6")
    copy.on_message(3, b"apple", b"35")
    must(copy.is_exact, False, "is_exact after DeletionsMissed with live 6, and offset 3")
    copy.on_message(5, b"plum", b"20")
    must(copy.values, {b"apple": b"35", b"plum": b"20"}, "the values after DeletionsMissed, apple 35 and plum 20")
    must(copy.is_exact, True, "is_exact after DeletionsMissed with live 6, and offsets 3 and 5")
