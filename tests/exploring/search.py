"""All stories of up to so many steps, the shortest first, and from each state once."""

from collections import Counter
from dataclasses import dataclass, field

from .world import READERS, VERBS, World, verb_of


@dataclass(frozen=True)
class Wrong:
    """A story that goes wrong, when none that is shorter does.

    Attributes:
        story: its steps.
        requests: what was asked in each step.
        problem: what core and model do not agree on, or what was raised.
    """

    story: tuple
    requests: list
    problem: Exception


@dataclass
class Covered:
    """How far a search has come.

    Attributes:
        steps: all stories of so many steps, and fewer, were tried.
        stories: how many these are.
        states: how many states were found.
        tried: how often each verb was.
    """

    steps: int = 0
    stories: int = 0
    states: int = 1
    tried: Counter = field(default_factory=Counter)


class Search:
    """A search in worlds of one kind.

    A world is told again from its beginning each time: that takes no longer than a copy, and keeps
    nothing in memory but stories.

    Args:
        kind: of the topic, in `KINDS`.
        verbs: what may happen; by default everything.

    Attributes:
        covered: how far it has come, also if it is interrupted.
        progress: from how many states it has gone on, of those that are as many steps away.
    """

    def __init__(self, kind, verbs=None):
        self._kind = kind
        self._verbs = list(VERBS) if verbs is None else verbs
        self.covered = Covered()
        self.progress = 0, 1
        self._numbers = {World(kind).digest(): 0}  # of each state, in the order they were found
        self._after = []  # of each state that was left, those that are one step further
        self._ends = [()]  # of each state that was not left yet, a story that leads there
        self._stories = Counter({0: 1})  # how many of the longest lead to each state

    def go_on(self, on_progress=lambda: None):
        """Try all stories that are one step longer.

        Args:
            on_progress: called after each state.

        Returns the first that goes wrong; None if none does.
        """
        ends, self._ends = self._ends, []
        for done, story in enumerate(ends):
            self.progress = done, len(ends)
            after = []
            for step in self._choices(story):
                wrong = self._try((*story, step), after)
                if wrong:
                    return wrong
            self._after.append(after)
            on_progress()
        self._count()
        return None

    def _choices(self, story):
        alone = not any(step[0] in READERS for step in story)
        return list(self._told(story).choices(self._verbs, alone=alone))

    def _told(self, story):
        world = World(self._kind)
        for step in story:
            world.take(step)
        return world

    def _try(self, story, after):
        *known, last = story
        world = self._told(known)
        try:
            world.take(last)
            state = world.digest()
            # What is to be compared in a state that is known has been compared.
            if state not in self._numbers:
                world.check()
        except Exception as problem:
            return Wrong(story, world.requests, problem)
        self.covered.tried[verb_of(last)] += 1
        after.append(self._number(state, story))
        return None

    def _number(self, state, story):
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._numbers)
            self._ends.append(story)
            self.covered.states += 1
        return number

    def _count(self):
        longer = Counter()
        for state, stories in self._stories.items():
            for number in self._after[state]:
                longer[number] += stories
        self._stories = longer
        self.covered.steps += 1
        self.covered.stories += longer.total()
