"""Consumer groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and who is in them."""

from typing import Any

import anyio
from kafka.protocol.admin import DescribeGroupsResponse, ListGroupsResponse
from kafka.protocol.consumer import (
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    SyncGroupResponse,
)

from zaichik.apps.kafka.codes import Code
from zaichik.apps.kafka.coordinator import TooManyGroups
from zaichik.apps.kafka.groups import Group, Joined, Joining, Synced
from zaichik.apps.kafka.positions import Positions
from zaichik.apps.kafka.session import Session

KNOWS_ID = 4  # the version from which a client can come back with its id
DEAD = "Dead"
CONSUMER = "consumer"

_Member = JoinGroupResponse.JoinGroupResponseMember
_Listed = ListGroupsResponse.ListedGroup
_Described = DescribeGroupsResponse.DescribedGroup
_DescribedMember = _Described.DescribedGroupMember


def fits(session: Session, group: str) -> bool:
    """Returns whether a group's name is one, and short enough for the keys of its positions."""
    return bool(group) and Positions.fits((session.user, group, ""))


async def join_group(session: Session, request: Any, version: int) -> Any:
    """Returns the generation that the member is in, when it has begun."""
    joined = await _join(session, request, version)
    if joined.code not in (Code.NONE, Code.MEMBER_ID_REQUIRED):
        session.warn(f"JoinGroup {request.group_id[:80]!r}", joined.code.name)
    members = [
        _Member(member_id=name, group_instance_id=instance, metadata=metadata)
        for name, instance, metadata in joined.members
    ]
    return JoinGroupResponse(
        throttle_time_ms=0,
        error_code=joined.code,
        generation_id=joined.generation,
        protocol_name=joined.protocol,
        leader=joined.leader,
        member_id=joined.member,
        members=members,
    )


async def _join(session: Session, request: Any, version: int) -> Joined:
    if not fits(session, request.group_id):
        return Joined(Code.INVALID_GROUP_ID, request.member_id)
    try:
        group = session.shared.coordinator.open(session.user, request.group_id)
    except TooManyGroups as error:
        session.warn(f"group {request.group_id[:80]!r} cannot be opened", error)
        return Joined(Code.GROUP_MAX_SIZE_REACHED, request.member_id)
    rebalance_ms = request.session_timeout_ms  # in version 0 there is one time-out for both
    if version >= 1:
        rebalance_ms = request.rebalance_timeout_ms
    joining = Joining(
        member=request.member_id,
        instance=request.group_instance_id,
        client=session.client_id,
        host=session.peer.rpartition(":")[0],
        session_seconds=request.session_timeout_ms / 1000,
        rebalance_seconds=rebalance_ms / 1000,
        kind=request.protocol_type,
        protocols=tuple((p.name, bytes(p.metadata or b"")) for p in request.protocols),
        must_know_id=version >= KNOWS_ID,
    )
    if not session.shared.coordinator.has_room(session.user, joining.size):
        return Joined(Code.GROUP_MAX_SIZE_REACHED, request.member_id)
    answer = group.join(joining, anyio.current_time())
    return await session.shared.coordinator.wait(group, answer)


async def sync_group(session: Session, request: Any, _version: int) -> Any:
    """Returns what the member reads, when the leader has assigned."""
    group = session.shared.coordinator.find(session.user, request.group_id)
    synced = Synced(Code.UNKNOWN_MEMBER_ID)
    assignments = {row.member_id: bytes(row.assignment or b"") for row in request.assignments}
    size = sum(len(assignment) for assignment in assignments.values())
    if not session.shared.coordinator.has_room(session.user, size):
        synced = Synced(Code.GROUP_MAX_SIZE_REACHED)
    elif group is not None:
        answer = group.sync(
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            assignments,
            anyio.current_time(),
        )
        synced = await session.shared.coordinator.wait(group, answer)
    return SyncGroupResponse(
        throttle_time_ms=0, error_code=synced.code, assignment=synced.assignment
    )


async def heartbeat(session: Session, request: Any, _version: int) -> Any:
    """Returns whether the member's generation still stands."""
    group = session.shared.coordinator.find(session.user, request.group_id)
    code = Code.UNKNOWN_MEMBER_ID
    if group is not None:
        code = group.heartbeat(
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            anyio.current_time(),
        )
        session.shared.coordinator.changed(group)
    return HeartbeatResponse(throttle_time_ms=0, error_code=code)


async def leave_group(session: Session, request: Any, _version: int) -> Any:
    """Remove a member, so that others need not wait for its session to end."""
    group = session.shared.coordinator.find(session.user, request.group_id)
    code = Code.UNKNOWN_MEMBER_ID
    if group is not None:
        code = group.leave(request.member_id, anyio.current_time())
        session.shared.coordinator.changed(group)
    return LeaveGroupResponse(throttle_time_ms=0, error_code=code)


async def list_groups(session: Session, _request: Any, _version: int) -> Any:
    """Returns the user's groups: those with members, and those with positions."""
    kinds = dict.fromkeys(session.shared.positions.groups_of(session.user), CONSUMER)
    for name, group in session.shared.coordinator.of(session.user):
        if group.members:
            kinds[name] = group.kind
    groups = [_Listed(group_id=name, protocol_type=kind) for name, kind in sorted(kinds.items())]
    return ListGroupsResponse(throttle_time_ms=0, error_code=Code.NONE, groups=groups)


async def describe_groups(session: Session, request: Any, _version: int) -> Any:
    """Returns who is in groups, and what each member reads."""
    with_positions = session.shared.positions.groups_of(session.user)
    # Each once: a request can name a large group ten thousand times.
    names = dict.fromkeys(request.groups)
    described = [_described(session, name, with_positions) for name in names]
    return DescribeGroupsResponse(throttle_time_ms=0, groups=described)


def _described(session: Session, name: str, with_positions: set[str]) -> Any:
    group = session.shared.coordinator.find(session.user, name)
    if group is None or not group.members:
        state = DEAD
        if name in with_positions:
            state = "Empty"
        return _Described(
            error_code=Code.NONE,
            group_id=name,
            group_state=state,
            protocol_type=CONSUMER if state != DEAD else "",
            protocol_data="",
            members=[],
        )
    group.expire(anyio.current_time())
    members = [_member(group, member_id) for member_id in group.members]
    return _Described(
        error_code=Code.NONE,
        group_id=name,
        group_state=group.phase.value,
        protocol_type=group.kind,
        protocol_data=group.protocol,
        members=members,
    )


def _member(group: Group, member_id: str) -> Any:
    member = group.members[member_id]
    joining = member.joining
    return _DescribedMember(
        member_id=member_id,
        group_instance_id=joining.instance,
        client_id=joining.client,
        client_host=f"/{joining.host}",
        member_metadata=dict(joining.protocols).get(group.protocol, b""),
        member_assignment=member.assignment,
    )
