"""How to install the packages of an extra.

zaichik is on no package index, so pip needs a path to it.
"""

# Not compiled: it runs once in a program, so there is nothing to gain.


def getting(extra: str) -> str:
    """Returns what to type for an extra of `pyproject.toml`: the end of a sentence.

    It says so for a clone and for a wheel.
    """
    return (
        f"`make .venv/.installed-{extra}` in a clone, or `pip install 'WHEEL[{extra}]'` with "
        "the path of your wheel"
    )
