"""How to install the packages of an extra. zaichik is on no package index, so pip needs a path to it."""


def getting(extra: str) -> str:
    """Returns what to type for an extra of `pyproject.toml`, in a clone and with a wheel: the end of a sentence."""
    return f"`make .venv/.installed-{extra}` in a clone, or `pip install 'WHEEL[{extra}]'` with the path of your wheel"
