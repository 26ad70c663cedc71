"""Numbers of things in English: 1 message, 2,000 messages."""

# Not compiled: it makes sentences for people, who read more slowly.


def counted(count: int, noun: str, nouns: str = "") -> str:
    """Returns a number of things, as in "1 message" and "2,000 messages".

    Args:
        count: how many.
        noun: the word for one of them.
        nouns: the word for several, if it is not `noun` with an s.
    """
    word = noun
    if count != 1:
        word = nouns or f"{noun}s"
    return f"{count:,} {word}"
