"""A consumer group: who is in it, and who reads what. It does no I/O, and time is a parameter.

The members' own leader decides who reads what; the group passes that on. Each decision is a
*generation*, and a member must name the one it knows with each request.

    EMPTY ── join ──▶ PREPARING ── all have joined, ──▶ COMPLETING ── the leader ──▶ STABLE
                        ▲          or time is up                      has assigned     │
                        └─────── a member joins, leaves, or is silent for too long ────┘

A join waits until its generation begins, a sync until the leader has assigned. Both are `Answer`s,
which `expire` settles when time is up; `next_deadline` says when to call it. A member that waits
for one of these is alive.

A *static* member has an instance id of its own choice. When its program is restarted, it takes the
place of the member before it, with the same part of the work, and nobody else notices.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum

from zaichik.apps.kafka.answers import Answer
from zaichik.apps.kafka.codes import Code

# To wait for other members of a new group, which were started at the same time. Each that is
# missed costs a generation more.
FIRST_SECONDS = 0.3
MIN_SESSION_SECONDS = 0.1
MAX_SESSION_SECONDS = 1800.0  # Kafka's limit
MAX_REBALANCE_SECONDS = 1800.0
MAX_MEMBERS = 250
# Of one member: what it says of itself, for all protocols together.
MAX_METADATA_BYTES = 64 * 1024
NO_GENERATION = -1


class Phase(Enum):
    """What a group is doing; the values are Kafka's names, which tools show."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True)
class Joining:
    """A request to join.

    Attributes:
        member: the id that the group gave it before; "" if it has none yet.
        instance: the id of a static member; None for others.
        client, host: who asks, for tools.
        session_seconds: how long it may be silent.
        rebalance_seconds: how long others wait for it to join again.
        kind: of protocol; "consumer" for readers.
        protocols: what it can do, as name and metadata, the one it likes best first.
        must_know_id: whether it can come back with the id that it is given first, so that a lost
            answer leaves no ghost.
    """

    member: str
    instance: str | None
    client: str
    host: str
    session_seconds: float
    rebalance_seconds: float
    kind: str
    protocols: tuple[tuple[str, bytes], ...]
    must_know_id: bool = False

    @property
    def size(self) -> int:
        """How many bytes the client has chosen, which its group keeps."""
        protocols = sum(len(name) + len(metadata) for name, metadata in self.protocols)
        return protocols + len(self.instance or "")


@dataclass(frozen=True, slots=True)
class Joined:
    """The answer to a join.

    Attributes:
        code: NONE, or why it has not joined.
        members: for the leader: member id, instance id and metadata of each; others get none.
    """

    code: Code
    member: str
    generation: int = NO_GENERATION
    protocol: str = ""
    leader: str = ""
    members: tuple[tuple[str, str | None, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Synced:
    """The answer to a sync: the member's assignment, as the leader wrote it."""

    code: Code
    assignment: bytes = b""


@dataclass(slots=True)
class Member:
    """A member.

    Attributes:
        joining: its last request to join.
        seen: when it was last heard of.
        assignment: what it reads, as the leader wrote it.
        join, sync: its request that waits; None if there is none.
    """

    joining: Joining
    seen: float
    assignment: bytes = b""
    join: Answer[Joined] | None = None
    sync: Answer[Synced] | None = None
    has_synced: bool = False

    @property
    def is_waiting(self) -> bool:
        """Whether the group owes it an answer, so that silence is not its fault."""
        return self.join is not None or self.sync is not None

    @property
    def names(self) -> list[str]:
        """The names of its protocols."""
        return [name for name, _ in self.joining.protocols]


@dataclass(eq=False)
class Group:
    """One group.

    Args:
        new_id: makes an id for a member, from its client's id.

    Attributes:
        phase: see the diagram above.
        generation: counts the decisions.
        kind: of protocol; "" if it has no members.
        protocol: the one that all members know, of this generation.
        leader: the member that assigns.
        members: by their ids, in the order in which they came.
    """

    new_id: Callable[[str], str]
    phase: Phase = Phase.EMPTY
    generation: int = 0
    kind: str = ""
    protocol: str = ""
    leader: str = ""
    members: dict[str, Member] = field(default_factory=dict)
    # Ids that were given out and have not come back, and until when they may.
    _pending: dict[str, float] = field(default_factory=dict)
    # Member ids of static members, by instance.
    _instances: dict[str, str] = field(default_factory=dict)
    # While PREPARING: not before `_ready_at`, and not after `_deadline`. While COMPLETING: the
    # leader assigns until `_deadline`.
    _ready_at: float = 0.0
    _deadline: float = math.inf

    # -- time ------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """Returns when `expire` may have something to do; infinity: never."""
        times = [
            member.seen + member.joining.session_seconds
            for member in self.members.values()
            if not member.is_waiting
        ]
        times.extend(self._pending.values())
        if self.phase is Phase.PREPARING:
            times.append(self._deadline)
            if self._all_have_joined():
                times.append(self._ready_at)
        if self.phase is Phase.COMPLETING:
            times.append(self._deadline)
        return min(times, default=math.inf)

    def expire(self, now: float) -> None:
        """Remove members that were silent for too long, and end what has waited for too long."""
        for member_id, until in list(self._pending.items()):
            if until <= now:
                del self._pending[member_id]
        silent = [
            member_id
            for member_id, member in self.members.items()
            if not member.is_waiting and member.seen + member.joining.session_seconds <= now
        ]
        self._remove(silent, now)
        if self.phase is Phase.COMPLETING and self._deadline <= now:
            late = [name for name, member in self.members.items() if not member.has_synced]
            self._remove(late, now)
        if self.phase is Phase.PREPARING:
            self._begin_if_ready(now)

    # -- joining ---------------------------------------------------------------------------------

    def join(self, joining: Joining, now: float) -> Answer[Joined]:
        """Returns the answer to a request to join, when its generation has begun."""
        self.expire(now)
        refused = self._refusal(joining)
        if refused is not Code.NONE:
            return Answer(Joined(refused, joining.member))
        if joining.instance is not None:
            return self._join_static(joining, now)
        if not joining.member:
            return self._join_new(joining, now)
        if joining.member in self.members:
            return self._join_again(joining, now)
        if self._pending.pop(joining.member, None) is None:
            return Answer(Joined(Code.UNKNOWN_MEMBER_ID, joining.member))
        return self._add(joining, now)

    def _refusal(self, joining: Joining) -> Code:
        if not MIN_SESSION_SECONDS <= joining.session_seconds <= MAX_SESSION_SECONDS:
            return Code.INVALID_SESSION_TIMEOUT
        if not joining.kind or not joining.protocols:
            return Code.INCONSISTENT_GROUP_PROTOCOL
        if joining.size > MAX_METADATA_BYTES:
            return Code.INVALID_REQUEST
        others = [
            member for name, member in self.members.items() if name != self._place_of(joining)
        ]
        if not others:
            return Code.NONE
        if joining.kind != self.kind:
            return Code.INCONSISTENT_GROUP_PROTOCOL
        common = {name for name, _ in joining.protocols}
        for member in others:
            common &= set(member.names)
        if not common:
            return Code.INCONSISTENT_GROUP_PROTOCOL
        return Code.NONE

    def _place_of(self, joining: Joining) -> str:
        """Returns the id of the member whose place it would have; "" if it is a new one."""
        if joining.instance is not None:
            return self._instances.get(joining.instance, "")
        return joining.member

    def _join_new(self, joining: Joining, now: float) -> Answer[Joined]:
        if len(self.members) + len(self._pending) >= MAX_MEMBERS:
            return Answer(Joined(Code.GROUP_MAX_SIZE_REACHED, ""))
        member_id = self.new_id(joining.client)
        if joining.must_know_id:
            self._pending[member_id] = now + joining.session_seconds
            return Answer(Joined(Code.MEMBER_ID_REQUIRED, member_id))
        return self._add(_with_id(joining, member_id), now)

    def _join_static(self, joining: Joining, now: float) -> Answer[Joined]:
        before = self._instances.get(joining.instance or "")
        if before is None:
            if joining.member:
                return Answer(Joined(Code.UNKNOWN_MEMBER_ID, joining.member))
            if len(self.members) >= MAX_MEMBERS:
                return Answer(Joined(Code.GROUP_MAX_SIZE_REACHED, ""))
            return self._add(_with_id(joining, self.new_id(joining.client)), now)
        if joining.member:
            if joining.member != before:
                return Answer(Joined(Code.FENCED_INSTANCE_ID, joining.member))
            return self._join_again(joining, now)
        return self._replace(before, _with_id(joining, self.new_id(joining.client)), now)

    def _replace(self, before: str, joining: Joining, now: float) -> Answer[Joined]:
        """Give a static member that was restarted its former place, under another id."""
        member = self.members[before]
        _settle_join(member, Joined(Code.FENCED_INSTANCE_ID, before))
        _settle_sync(member, Synced(Code.FENCED_INSTANCE_ID))
        # The order of the members decides who leads next.
        self.members = {
            joining.member if name == before else name: known
            for name, known in self.members.items()
        }
        self._instances[joining.instance or ""] = joining.member
        leader_before = self.leader
        if self.leader == before:
            self.leader = joining.member
        is_same = member.joining.protocols == joining.protocols
        if self.phase is Phase.STABLE and is_same:
            member.joining = joining
            member.seen = now
            # It is told the former leader, so it does not assign again, and syncs for what it had.
            return Answer(
                Joined(Code.NONE, joining.member, self.generation, self.protocol, leader_before)
            )
        # While the leader assigns, it knows this member by its former id only.
        return self._rejoin(joining, now)

    def _add(self, joining: Joining, now: float) -> Answer[Joined]:
        answer: Answer[Joined] = Answer()
        self.kind = joining.kind
        self.members[joining.member] = Member(joining, now, join=answer)
        if joining.instance is not None:
            self._instances[joining.instance] = joining.member
        self._prepare(now)
        return answer

    def _join_again(self, joining: Joining, now: float) -> Answer[Joined]:
        member = self.members[joining.member]
        is_same = member.joining.protocols == joining.protocols
        is_follower = self.phase is Phase.STABLE and joining.member != self.leader
        if is_same and (is_follower or self.phase is Phase.COMPLETING):
            member.joining = joining
            member.seen = now
            return Answer(self._joined(joining.member))
        return self._rejoin(joining, now)

    def _rejoin(self, joining: Joining, now: float) -> Answer[Joined]:
        member = self.members[joining.member]
        # Its former request was given up, perhaps with its connection.
        _settle_join(member, Joined(Code.UNKNOWN_MEMBER_ID, joining.member))
        member.joining = joining
        member.seen = now
        answer: Answer[Joined] = Answer()
        member.join = answer
        self._prepare(now)
        return answer

    def _prepare(self, now: float) -> None:
        """Begin to prepare the next generation, or go on with that."""
        if self.phase is not Phase.PREPARING:
            wait = 0.0
            if self.phase is Phase.EMPTY:
                wait = FIRST_SECONDS
            self._ready_at = now + wait
            self.phase = Phase.PREPARING
            for member in self.members.values():
                if member.sync is not None:
                    member.seen = now
                _settle_sync(member, Synced(Code.REBALANCE_IN_PROGRESS))
                member.has_synced = False
        self._deadline = now + self._rebalance_seconds()
        self._begin_if_ready(now)

    def _rebalance_seconds(self) -> float:
        longest = max(member.joining.rebalance_seconds for member in self.members.values())
        return min(max(longest, FIRST_SECONDS), MAX_REBALANCE_SECONDS)

    def _all_have_joined(self) -> bool:
        return all(member.join is not None for member in self.members.values())

    def _begin_if_ready(self, now: float) -> None:
        if self._deadline <= now:
            self._drop_absent()
        elif self._ready_at > now or not self._all_have_joined():
            return
        if not self.members:
            self._become_empty()
        elif all(member.join is None for member in self.members.values()):
            # Only static members that are away are left: they are waited for.
            self._deadline = now + self._rebalance_seconds()
        else:
            self._begin(now)

    def _drop_absent(self) -> None:
        """Remove the members that have not joined again, except static ones.

        Those keep their places until their sessions end.
        """
        for name, member in list(self.members.items()):
            if member.join is None and member.joining.instance is None:
                del self.members[name]

    def _begin(self, now: float) -> None:
        """Begin a generation, and answer the joins."""
        self.generation += 1
        self.protocol = self._chosen_protocol()
        leader = self.members.get(self.leader)
        if leader is None or leader.join is None:
            self.leader = next(
                name for name, member in self.members.items() if member.join is not None
            )
        self.phase = Phase.COMPLETING
        self._deadline = now + self._rebalance_seconds()
        for name, member in self.members.items():
            # A static member that is away has no part in this, and is not waited for.
            member.has_synced = member.join is None
            if member.join is not None:
                member.seen = now
                _settle_join(member, self._joined(name))

    def _chosen_protocol(self) -> str:
        """Returns the protocol that all members know and most like best."""
        common = set.intersection(*(set(member.names) for member in self.members.values()))
        votes: Counter[str] = Counter()
        for member in self.members.values():
            votes[next(name for name in member.names if name in common)] += 1
        return votes.most_common(1)[0][0]

    def _joined(self, member_id: str) -> Joined:
        rows: list[tuple[str, str | None, bytes]] = []
        if member_id == self.leader:
            for name, member in self.members.items():
                metadata = dict(member.joining.protocols)[self.protocol]
                rows.append((name, member.joining.instance, metadata))
        return Joined(
            Code.NONE, member_id, self.generation, self.protocol, self.leader, tuple(rows)
        )

    # -- the rest of a generation ----------------------------------------------------------------

    def sync(
        self,
        member_id: str,
        instance: str | None,
        generation: int,
        assignments: dict[str, bytes],
        now: float,
    ) -> Answer[Synced]:
        """Returns the answer to a sync, when the leader has assigned.

        Args:
            member_id: see `check`.
            instance: see `check`.
            generation: see `check`.
            assignments: what each member reads, if it is the leader's; otherwise empty.
            now: the time.
        """
        code = self.check(member_id, instance, generation, now)
        if code is not Code.NONE:
            return Answer(Synced(code))
        member = self.members[member_id]
        if self.phase is Phase.PREPARING:
            return Answer(Synced(Code.REBALANCE_IN_PROGRESS))
        if self.phase is Phase.STABLE:
            return Answer(Synced(Code.NONE, member.assignment))
        # Its former request was given up, perhaps with its connection.
        _settle_sync(member, Synced(Code.REBALANCE_IN_PROGRESS))
        answer: Answer[Synced] = Answer()
        member.sync = answer
        member.has_synced = True
        if member_id == self.leader:
            self._assign(assignments, now)
        return answer

    def _assign(self, assignments: dict[str, bytes], now: float) -> None:
        self.phase = Phase.STABLE
        self._deadline = math.inf
        for name, member in self.members.items():
            member.assignment = assignments.get(name, b"")
            if member.sync is not None:
                member.seen = now
                _settle_sync(member, Synced(Code.NONE, member.assignment))

    def heartbeat(self, member_id: str, instance: str | None, generation: int, now: float) -> Code:
        """Returns NONE, or that the member must join again, or why it is none any more."""
        code = self.check(member_id, instance, generation, now)
        if code is Code.NONE and self.phase is Phase.PREPARING:
            return Code.REBALANCE_IN_PROGRESS
        return code

    def leave(self, member_id: str, now: float) -> Code:
        """Remove a member; returns whether there was one."""
        self.expire(now)
        if self._pending.pop(member_id, None) is not None:
            return Code.NONE
        if member_id not in self.members:
            return Code.UNKNOWN_MEMBER_ID
        self._remove([member_id], now)
        return Code.NONE

    def check(self, member_id: str, instance: str | None, generation: int, now: float) -> Code:
        """Note that a member was heard of; returns NONE if it is one, in this generation."""
        self.expire(now)
        if instance is not None:
            known = self._instances.get(instance)
            if known is not None and known != member_id:
                return Code.FENCED_INSTANCE_ID
        member = self.members.get(member_id)
        if member is None:
            return Code.UNKNOWN_MEMBER_ID
        if generation != self.generation:
            return Code.ILLEGAL_GENERATION
        member.seen = now
        return Code.NONE

    def check_commit(
        self, member_id: str, instance: str | None, generation: int, now: float
    ) -> Code:
        """Returns NONE if positions may be committed.

        A program that reads without joining names no generation: it may, as long as there are no
        members.
        """
        self.expire(now)
        if generation < 0 and not self.members:
            return Code.NONE
        code = self.check(member_id, instance, generation, now)
        if code is Code.NONE and self.phase is Phase.COMPLETING:
            return Code.REBALANCE_IN_PROGRESS
        return code

    @property
    def size(self) -> int:
        """How many bytes are kept that its members have chosen."""
        return sum(member.joining.size + len(member.assignment) for member in self.members.values())

    @property
    def is_idle(self) -> bool:
        """Whether nothing of it needs to be remembered but its generation."""
        return not self.members and not self._pending

    def _remove(self, names: list[str], now: float) -> None:
        if not names:
            return
        for name in names:
            member = self.members.pop(name)
            _settle_join(member, Joined(Code.UNKNOWN_MEMBER_ID, name))
            _settle_sync(member, Synced(Code.UNKNOWN_MEMBER_ID))
            if member.joining.instance is not None:
                self._instances.pop(member.joining.instance, None)
        if not self.members:
            self._become_empty()
        else:
            self._prepare(now)

    def _become_empty(self) -> None:
        """Nobody is left. The generation counts on: what a former member sends is refused."""
        self.generation += 1
        self.phase = Phase.EMPTY
        self.kind = ""
        self.protocol = ""
        self.leader = ""
        self._deadline = math.inf


def _with_id(joining: Joining, member_id: str) -> Joining:
    return replace(joining, member=member_id)


def _settle_join(member: Member, joined: Joined) -> None:
    if member.join is not None:
        answer = member.join
        member.join = None
        answer.settle(joined)


def _settle_sync(member: Member, synced: Synced) -> None:
    if member.sync is not None:
        answer = member.sync
        member.sync = None
        answer.settle(synced)
