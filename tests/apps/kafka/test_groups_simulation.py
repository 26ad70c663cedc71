"""Consumer groups as a simulation: members join, hang, come back and leave, in any order.

The members are programs as Kafka's clients are: they do what they are told by the answers, at some
time or never. What each believes to own is compared: within a generation, a part of the work has
one owner, and everybody who goes on is served in the end.
"""

from itertools import count

import hypothesis
import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from zaichik.apps.kafka.codes import Code
from zaichik.apps.kafka.groups import Group, Joining, Phase

PARTS = ("north", "south")
SESSION, REBALANCE = 10.0, 30.0
MEMBERS = 5


class Program:
    """One of the programs that read, by what it knows."""

    def __init__(self, name: str, instance: str | None) -> None:
        self.name = name
        self.instance = instance
        self.member = ""
        self.generation = -1
        self.leads: tuple = ()
        # What it reads, and in which generation it was told.
        self.owned: tuple[int, bytes] | None = None
        self.join = None
        self.sync = None

    def joins_again(self) -> None:
        """Its generation is over; it keeps its id."""
        self.generation = -1
        self.owned = None

    def restart(self) -> None:
        """Begin with nothing, as a program does that was started again."""
        self.__init__(self.name, self.instance)


class Groups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        numbers = count(1)
        self.now = 0.0
        self.group = Group(lambda client: f"{client}-{next(numbers)}")
        # What was assigned in each generation, for ever: to whom each part was given.
        self.owners: dict[tuple[int, bytes], str] = {}
        self.generations: list[int] = [0]

    @initialize(statics=st.lists(st.booleans(), min_size=MEMBERS, max_size=MEMBERS))
    def begin(self, statics):
        self.programs = [
            Program(f"p{n}", f"i{n}" if is_static else None) for n, is_static in enumerate(statics)
        ]

    # -- what programs do ------------------------------------------------------------------------

    @rule(n=st.integers(0, MEMBERS - 1), must_know_id=st.booleans())
    def joins(self, n, must_know_id):
        program = self.programs[n]
        joining = Joining(
            program.member,
            program.instance,
            program.name,
            "host",
            SESSION,
            REBALANCE,
            "consumer",
            (("range", program.name.encode()),),
            must_know_id,
        )
        program.join = self.group.join(joining, self.now)
        self.look()

    @rule(n=st.integers(0, MEMBERS - 1))
    def syncs(self, n):
        program = self.programs[n]
        if program.generation < 0 or program.join is not None:
            return
        assignments = {}
        for part, (member, _, _) in zip(PARTS, program.leads, strict=False):
            assignments[member] = part.encode()
        program.sync = self.group.sync(
            program.member, program.instance, program.generation, assignments, self.now
        )
        self.look()

    @rule(n=st.integers(0, MEMBERS - 1))
    def beats(self, n):
        program = self.programs[n]
        if not program.member or program.join is not None:
            return
        code = self.group.heartbeat(program.member, program.instance, program.generation, self.now)
        if code in (Code.UNKNOWN_MEMBER_ID, Code.FENCED_INSTANCE_ID):
            program.restart()
        elif code is not Code.NONE:
            program.joins_again()
        self.look()

    @rule(n=st.integers(0, MEMBERS - 1))
    def leaves(self, n):
        program = self.programs[n]
        if program.member and program.instance is None:
            self.group.leave(program.member, self.now)
        program.restart()
        self.look()

    @rule(n=st.integers(0, MEMBERS - 1))
    def crashes(self, n):
        """What it was about to be told is lost."""
        self.programs[n].restart()

    @rule(seconds=st.sampled_from([0.1, 1.0, 9.0, 31.0]))
    def time_passes(self, seconds):
        end = self.now + seconds
        while (deadline := self.group.next_deadline()) < end:
            self.now = max(deadline, self.now)
            before = (self.group.phase, self.group.generation, len(self.group.members), deadline)
            self.group.expire(self.now)
            after = self.group.next_deadline()
            assert after > self.now or before != (
                self.group.phase,
                self.group.generation,
                len(self.group.members),
                after,
            ), "a deadline that has passed does nothing"
        self.now = end
        self.look()

    # -- what they learn -------------------------------------------------------------------------

    def look(self):
        """Programs take the answers that have come."""
        for program in self.programs:
            if program.join is not None and program.join.value is not None:
                self.take_join(program, program.join.value)
            if program.sync is not None and program.sync.value is not None:
                self.take_sync(program, program.sync.value)

    def take_join(self, program, joined):
        program.join = None
        program.joins_again()
        if joined.code in (Code.NONE, Code.MEMBER_ID_REQUIRED):
            program.member = joined.member
        else:
            program.restart()
        if joined.code is Code.NONE:
            program.generation = joined.generation
            program.leads = joined.members

    def take_sync(self, program, synced):
        program.sync = None
        if synced.code in (Code.UNKNOWN_MEMBER_ID, Code.FENCED_INSTANCE_ID):
            program.restart()
        elif synced.code is not Code.NONE:
            program.joins_again()
        if synced.code is not Code.NONE:
            return
        program.owned = (program.generation, synced.assignment)
        if not synced.assignment:
            return
        owner = self.owners.setdefault(program.owned, program.name)
        assert owner == program.name, "a part has two owners in one generation"

    # -- what must hold --------------------------------------------------------------------------

    @invariant()
    def generations_only_rise(self):
        self.generations.append(self.group.generation)
        assert self.generations[-1] >= self.generations[-2]

    @invariant()
    def nobody_waits_in_a_stable_group(self):
        if self.group.phase is Phase.STABLE:
            assert not any(member.is_waiting for member in self.group.members.values())
            assert self.group.leader in self.group.members

    @invariant()
    def an_empty_group_has_no_members(self):
        assert (self.group.phase is Phase.EMPTY) == (not self.group.members)

    @rule()
    def those_that_go_on_are_served(self):
        """All programs do what they should from now on; what others have left behind ends."""
        for _ in range(40):
            for n, program in enumerate(self.programs):
                if program.join is not None or program.sync is not None:
                    continue
                self.beats(n)
                if program.generation < 0:
                    self.joins(n, must_know_id=False)
                elif program.owned is None:
                    self.syncs(n)
            self.time_passes(4.0)
        assert self.group.phase is Phase.STABLE
        owned = [program.owned for program in self.programs]
        assert {generation for generation, _ in owned} == {self.group.generation}
        parts = sorted(part for _, part in owned if part)
        assert parts == [part.encode() for part in PARTS]


SIMULATED = settings(max_examples=50, stateful_step_count=30)


def run_once() -> None:
    """The simulation without looking for the shortest failure, for slips."""
    short = settings(SIMULATED, phases=[hypothesis.Phase.generate], database=None)
    run_state_machine_as_test(Groups, settings=short)


def test_a_part_has_one_owner_in_each_generation_and_all_that_go_on_are_served():
    run_state_machine_as_test(Groups, settings=SIMULATED)
