"""Patterns of topic names: `*` and `**`, matched in one pass over the name.

| in a pattern | stands for |
| --- | --- |
| `*` | one or more characters, none of which is a dot |
| `**` | any number of any characters, also none |
| more stars in a row | the same as two |
| anything else | itself |

A backtracking matcher can take exponential time for a pattern such as `*a*a*a*b`, where it may go
back to any star. So this is a nondeterministic automaton, whose states are places in the pattern:
after each character of the name there is a set of states that the name so far can lead to. The set
is the bits of one number, so that a step is a few operations on numbers, however many stars there
are.
"""

MANY = "**"
ONE = "*"


class Pattern:
    """A pattern of topic names (PAT-2).

    Args:
        text: the pattern as it is written.

    Raises:
        ValueError: it is empty, or begins with `$`. The broker's own topics match no pattern.

    Attributes:
        text: see above.
    """

    def __init__(self, text: str) -> None:
        if not text:
            raise ValueError("a pattern must have at least one character; '**' is every topic")
        if text.startswith("$"):
            raise ValueError(
                f"{text!r} can match nothing: names that begin with '$' are those of the broker's "
                "own topics, which no pattern matches; subscribe to one by its name"
            )
        self.text = text
        tokens = _tokens(text)
        # The final state is the end of the pattern, after the last token.
        self._end = 1 << len(tokens)
        # The states before each character, and those before the wildcards.
        self._states: dict[str, int] = {}
        self._ones = 0
        self._many = 0
        for number, token in enumerate(tokens):
            state = 1 << number
            if token == MANY:
                self._many |= state
            elif token == ONE:
                self._ones |= state
            else:
                self._states[token] = self._states.get(token, 0) | state

    def matches(self, topic: str) -> bool:
        """Returns whether a topic of that name matches. Names that begin with `$` never do."""
        if topic.startswith("$"):
            return False
        states = self._epsilon_closure(1)
        for character in topic:
            # A character of the pattern is passed.
            after = (states & self._states.get(character, 0)) << 1
            if character != ".":
                # A star takes the character, and may take more.
                stars = states & self._ones
                after |= stars | stars << 1
            # Two stars take whatever comes.
            after |= states & self._many
            states = self._epsilon_closure(after)
            if not states:
                return False
        return bool(states & self._end)

    def _epsilon_closure(self, states: int) -> int:
        """Returns these states, and those after two stars that stand for nothing.

        One step is enough: after two stars there are never two stars again.
        """
        return states | (states & self._many) << 1


def is_pattern(text: str) -> bool:
    """Returns whether a text has a wildcard."""
    return ONE in text


def _tokens(text: str) -> list[str]:
    """Returns the characters and wildcards of a pattern."""
    tokens: list[str] = []
    stars = 0
    for character in text:
        if character == "*":
            stars += 1
            continue
        if stars:
            tokens.append(_wildcard(stars))
            stars = 0
        tokens.append(character)
    if stars:
        tokens.append(_wildcard(stars))
    return tokens


def _wildcard(stars: int) -> str:
    if stars > 1:
        return MANY
    return ONE
