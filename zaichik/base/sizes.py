"""Sizes as people read them: 512 B, 1.5 KiB, 64 MiB."""

# Not compiled: people read more slowly.


def show_size(count: int) -> str:
    """Formats bytes in the largest unit that gives at least 1, with at most four digits."""
    for power, letter in ((4, "T"), (3, "G"), (2, "M"), (1, "K")):
        if count >= 1024**power:
            return f"{count / 1024**power:.4g} {letter}iB"
    return f"{count} B"
