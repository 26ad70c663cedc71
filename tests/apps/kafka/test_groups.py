"""One consumer group, step by step; time is a number."""

from itertools import count

import pytest

from zaichik.apps.kafka import groups as groups_module
from zaichik.apps.kafka.codes import Code
from zaichik.apps.kafka.groups import FIRST_SECONDS, Group, Joining, Phase

SESSION, REBALANCE = 10.0, 60.0
RANGE = (("range", b"reads orders"),)


def new_group() -> Group:
    numbers = count(1)
    return Group(lambda client: f"{client}-{next(numbers)}")


def joining(member="", *, instance=None, protocols=RANGE, **settings) -> Joining:
    options = {
        "client": "c",
        "host": "h",
        "session_seconds": SESSION,
        "rebalance_seconds": REBALANCE,
        "kind": "consumer",
    }
    return Joining(member, instance, protocols=protocols, **options | settings)


def joined(group: Group, now: float, *members: str, **settings) -> list:
    """Answers of members that join at once, new ones if they have no ids yet."""
    answers = [group.join(joining(member, **settings), now) for member in members]
    group.expire(now + FIRST_SECONDS)
    return [answer.value for answer in answers]


def stable(group: Group, now: float = 0.0, count: int = 2) -> list[str]:
    """The ids of so many members, of which the first leads, and each reads its own id."""
    answers = joined(group, now, *count * [""])
    ids = [answer.member for answer in answers]
    for member in reversed(ids):
        group.sync(member, None, group.generation, assigned(ids, member), now + 1)
    assert group.phase is Phase.STABLE
    return ids


def assigned(ids: list[str], member: str) -> dict[str, bytes]:
    return {name: name.encode() for name in ids} if member == ids[0] else {}


@pytest.mark.parametrize(
    "large",
    [
        {"protocols": (("range", b"m" * 70_000),)},
        {"protocols": (("r" * 70_000, b""),)},
        {"instance": "i" * 70_000},
    ],
)
def test_what_a_member_says_of_itself_has_a_bound(large):
    """All of it is kept for as long as the member is one."""
    answer = new_group().join(joining(**large), 0.0).value
    assert answer.code is Code.INVALID_REQUEST


# -- joining -------------------------------------------------------------------------------------


def test_a_new_group_waits_a_moment_for_others():
    group = new_group()
    first = group.join(joining(), 0.0)
    second = group.join(joining(), FIRST_SECONDS / 2)
    assert (first.value, second.value) == (None, None)
    assert group.next_deadline() == FIRST_SECONDS
    group.expire(FIRST_SECONDS)
    assert (first.value.generation, second.value.generation) == (1, 1)
    assert first.value.leader == second.value.leader == first.value.member
    assert [row[0] for row in first.value.members] == [first.value.member, second.value.member]
    assert second.value.members == ()


def test_a_client_that_can_come_back_gets_its_id_first():
    group = new_group()
    asked = group.join(joining(must_know_id=True), 0.0).value
    assert (asked.code, group.members) == (Code.MEMBER_ID_REQUIRED, {})
    (answer,) = joined(group, 1.0, asked.member, must_know_id=True)
    assert (answer.code, answer.member) == (Code.NONE, asked.member)


def test_an_id_that_was_not_used_is_forgotten():
    group = new_group()
    asked = group.join(joining(must_know_id=True), 0.0).value
    assert group.next_deadline() == SESSION
    late = group.join(joining(asked.member), SESSION).value
    assert late.code is Code.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"member": "stranger"}, Code.UNKNOWN_MEMBER_ID),
        ({"session_seconds": 0.0}, Code.INVALID_SESSION_TIMEOUT),
        ({"session_seconds": 1e9}, Code.INVALID_SESSION_TIMEOUT),
        ({"protocols": ()}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ({"kind": ""}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ({"kind": "connect"}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("sticky", b""),)}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (("range", bytes(2**20)),)}, Code.INVALID_REQUEST),
    ],
)
def test_who_does_not_fit_is_refused_and_others_stay(settings, code):
    group = new_group()
    ids = stable(group)
    assert group.join(joining(**settings), 2.0).value.code is code
    assert (group.phase, list(group.members)) == (Phase.STABLE, ids)


def test_a_group_has_room_for_so_many(monkeypatch):
    monkeypatch.setattr(groups_module, "MAX_MEMBERS", 2)
    group = new_group()
    group.join(joining(must_know_id=True), 0.0)
    group.join(joining(), 0.0)
    assert group.join(joining(), 0.0).value.code is Code.GROUP_MAX_SIZE_REACHED
    assert group.join(joining(instance="i"), 0.0).value is None  # the id was not used
    assert group.join(joining(instance="j"), 0.0).value.code is Code.GROUP_MAX_SIZE_REACHED


def test_the_protocol_is_one_that_all_know_and_most_like_best():
    group = new_group()
    a, b, c = (("a", b"a"), ("b", b"b"), ("c", b"c"))
    answers = [group.join(joining(protocols=known), 0.0) for known in ((a, b), (c, b, a), (b, a))]
    group.expire(FIRST_SECONDS)
    assert {answer.value.protocol for answer in answers} == {"b"}
    assert [row[2] for row in answers[0].value.members] == [b"b", b"b", b"b"]


# -- one generation after the other --------------------------------------------------------------


def test_each_reads_what_the_leader_has_assigned():
    group = new_group()
    leader, follower = (answer.member for answer in joined(group, 0.0, "", ""))
    waiting = group.sync(follower, None, 1, {}, 1.0)
    assert waiting.value is None
    own = group.sync(leader, None, 1, {leader: b"all", follower: b"none"}, 1.0)
    assert (own.value.assignment, waiting.value.assignment) == (b"all", b"none")
    again = group.sync(follower, None, 1, {}, 2.0)
    assert again.value.assignment == b"none"


def test_a_member_more_makes_a_generation_more():
    group = new_group()
    ids = stable(group)
    third = group.join(joining(), 2.0)
    assert group.heartbeat(ids[0], None, 1, 2.0) is Code.REBALANCE_IN_PROGRESS
    assert group.sync(ids[0], None, 1, {}, 2.0).value.code is Code.REBALANCE_IN_PROGRESS
    answers = [group.join(joining(member), 3.0) for member in ids]
    assert {answer.value.generation for answer in (*answers, third)} == {2}
    assert group.heartbeat(ids[0], None, 1, 3.0) is Code.ILLEGAL_GENERATION
    assert group.heartbeat(ids[0], None, 2, 3.0) is Code.NONE


def test_a_member_that_leaves_is_not_waited_for():
    group = new_group()
    leader, follower = stable(group)
    assert group.leave(leader, 2.0) is Code.NONE
    assert group.heartbeat(leader, None, 1, 2.0) is Code.UNKNOWN_MEMBER_ID
    assert group.leave(leader, 2.0) is Code.UNKNOWN_MEMBER_ID
    answer = group.join(joining(follower), 3.0).value
    assert (answer.generation, answer.leader) == (2, follower)


def test_a_silent_member_is_removed_when_its_session_ends():
    group = new_group()
    leader, follower = stable(group)
    group.heartbeat(follower, None, 1, SESSION)
    assert group.heartbeat(follower, None, 1, SESSION + 1) is Code.REBALANCE_IN_PROGRESS
    assert list(group.members) == [follower]
    assert leader not in group.members


def test_a_member_that_does_not_join_again_is_removed_in_the_end():
    group = new_group()
    ids = stable(group)
    new = group.join(joining(), 2.0)
    again = group.join(joining(ids[0]), 3.0)
    for now in range(4, 62):
        group.heartbeat(ids[1], None, 1, float(now))
    assert new.value is None
    assert group.next_deadline() == 3.0 + REBALANCE
    group.expire(3.0 + REBALANCE)
    assert [row[0] for row in again.value.members] == [ids[0], new.value.member]


def test_a_member_that_waits_is_not_silent():
    group = new_group()
    ids = stable(group)
    again = group.join(joining(ids[0]), 2.0)
    for now in range(3, 40):
        group.heartbeat(ids[1], None, 1, float(now))
    assert again.value is None
    group.join(joining(ids[1]), 40.0)
    assert again.value.code is Code.NONE


def test_a_leader_that_does_not_assign_is_removed():
    group = new_group()
    leader, follower = (answer.member for answer in joined(group, 0.0, "", ""))
    waiting = group.sync(follower, None, 1, {}, 1.0)
    for now in range(2, 61):
        assert group.heartbeat(leader, None, 1, float(now)) is Code.NONE
    group.expire(FIRST_SECONDS + REBALANCE)
    assert waiting.value.code is Code.REBALANCE_IN_PROGRESS
    assert list(group.members) == [follower]


def test_a_follower_that_joins_again_with_the_same_disturbs_nobody():
    """Its answer was lost."""
    group = new_group()
    ids = stable(group)
    assert group.join(joining(ids[1]), 2.0).value.generation == 1
    assert group.phase is Phase.STABLE
    assert group.join(joining(ids[0]), 2.0).value is None
    assert group.phase is Phase.PREPARING


def test_a_follower_that_wants_to_read_other_topics_makes_a_generation_more():
    group = new_group()
    ids = stable(group)
    changed = joining(ids[1], protocols=(("range", b"reads more"),))
    assert group.join(changed, 2.0).value is None
    assert group.join(joining(ids[0]), 2.0).value.generation == 2


def test_an_empty_group_counts_on():
    group = new_group()
    (only,) = stable(group, count=1)
    group.leave(only, 2.0)
    assert (group.phase, group.generation, group.is_idle) == (Phase.EMPTY, 2, True)
    (answer,) = joined(group, 3.0, "")
    assert answer.generation == 3


def test_a_member_whose_request_is_given_up_gets_the_next_answer():
    group = new_group()
    first = group.join(joining(), 0.0)
    member = next(iter(group.members))
    second = group.join(joining(member), 0.1)
    assert first.value.code is Code.UNKNOWN_MEMBER_ID
    group.expire(FIRST_SECONDS)
    assert second.value.code is Code.NONE


# -- static members ------------------------------------------------------------------------------


def static(group: Group, now: float = 0.0) -> list[str]:
    answers = [group.join(joining(instance=name), now) for name in ("one", "two")]
    group.expire(now + FIRST_SECONDS)
    ids = [answer.value.member for answer in answers]
    for member, name in zip(reversed(ids), ("two", "one"), strict=True):
        group.sync(member, name, group.generation, assigned(ids, member), now + 1)
    return ids


@pytest.mark.parametrize("place", [0, 1])
def test_a_static_member_that_was_restarted_goes_on_with_its_part(place):
    group = new_group()
    ids = static(group)
    name = ("one", "two")[place]
    answer = group.join(joining(instance=name), 3.0).value
    assert (answer.code, answer.generation, answer.members) == (Code.NONE, 1, ())
    assert answer.leader == ids[0]
    synced = group.sync(answer.member, name, 1, {}, 3.0).value
    assert synced.assignment == ids[place].encode()
    assert group.heartbeat(ids[1 - place], ("two", "one")[place], 1, 4.0) is Code.NONE


def test_the_program_before_it_is_fenced():
    group = new_group()
    ids = static(group)
    group.join(joining(instance="two"), 3.0)
    assert group.heartbeat(ids[1], "two", 1, 3.0) is Code.FENCED_INSTANCE_ID
    assert group.check_commit(ids[1], "two", 1, 3.0) is Code.FENCED_INSTANCE_ID
    assert group.join(joining(ids[1], instance="two"), 3.0).value.code is Code.FENCED_INSTANCE_ID
    assert group.heartbeat(ids[1], None, 1, 3.0) is Code.UNKNOWN_MEMBER_ID


def test_a_static_member_that_comes_back_while_the_leader_assigns_begins_a_generation():
    """The leader knows it by its former id only."""
    group = new_group()
    answers = [group.join(joining(instance=name), 0.0) for name in ("one", "two")]
    group.expire(FIRST_SECONDS)
    leader = answers[0].value.member
    assert group.join(joining(instance="two"), 1.0).value is None
    assert group.join(joining(leader, instance="one"), 1.0).value.generation == 2


def test_a_static_member_keeps_its_place_while_it_is_away():
    group = new_group()
    ids = static(group)
    new = group.join(joining(), 2.0)
    group.join(joining(ids[0], instance="one"), 2.0)
    group.heartbeat(ids[1], "two", 1, 9.0)
    # Its session is longer than the others wait.
    group.members[ids[1]].joining = joining(ids[1], instance="two", session_seconds=100.0)
    group.expire(2.0 + REBALANCE)
    assert new.value.code is Code.NONE
    assert ids[1] in group.members
    group.expire(109.0)
    assert ids[1] not in group.members


# -- positions -----------------------------------------------------------------------------------


def test_a_program_that_reads_alone_may_commit_while_nobody_has_joined():
    group = new_group()
    assert group.check_commit("", None, -1, 0.0) is Code.NONE
    stable(group)
    assert group.check_commit("", None, -1, 2.0) is Code.UNKNOWN_MEMBER_ID


def test_only_members_of_the_generation_commit():
    group = new_group()
    ids = stable(group)
    assert group.check_commit(ids[0], None, 1, 2.0) is Code.NONE
    assert group.check_commit(ids[0], None, 0, 2.0) is Code.ILLEGAL_GENERATION
    assert group.check_commit("stranger", None, 1, 2.0) is Code.UNKNOWN_MEMBER_ID
    group.join(joining(), 3.0)
    # What it has read until now may be committed before it joins again.
    assert group.check_commit(ids[0], None, 1, 3.0) is Code.NONE
    for member in ids:
        group.join(joining(member), 3.0)
    assert group.check_commit(ids[0], None, 2, 3.0) is Code.REBALANCE_IN_PROGRESS
