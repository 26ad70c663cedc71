"""Names of users, which a browser does not have. zaichik asks for them when it opens files."""


def getpwuid(number: int) -> str:
    """Raises KeyError, as for a user without a name."""
    raise KeyError(number)
