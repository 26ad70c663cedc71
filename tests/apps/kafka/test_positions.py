"""Members of groups over the wire, and their positions, which outlive the gateway."""

import anyio
import anyio.to_thread
import pytest
from batches import batch
from embedded import embedded_broker
from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka_client import Kafka, commit, committed, gateway

import zaichik
from zaichik.apps.kafka import coordinator as coordinator_module
from zaichik.apps.kafka.codes import Code
from zaichik.apps.kafka.gateway import Gateway
from zaichik.apps.kafka.groups import Joining
from zaichik.apps.kafka.names import OFFSETS

pytestmark = pytest.mark.anyio

JOINING = Joining("", None, "c", "h", 10.0, 60.0, "consumer", (("range", b"reads a"),))
FREE_TEXT = ["g", "a b/c", "два слова", 'quo"te', "zero\0byte", "new\nline"]


def join_request(group="g", member="", *, instance=None, session_ms=10_000):
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"reads a")
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=60_000,
        member_id=member,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[protocol],
    )


async def join(kafka: Kafka, group="g", **settings):
    """The answer of a member that comes back with the id that it was given."""
    first = await kafka.ask(join_request(group, **settings), 5)
    if first.error_code != Code.MEMBER_ID_REQUIRED:
        return first
    return await kafka.ask(join_request(group, first.member_id, **settings), 5)


async def sync(kafka: Kafka, joined, assignments: dict[str, bytes], group="g"):
    rows = [
        SyncGroupRequest.SyncGroupRequestAssignment(member_id=name, assignment=data)
        for name, data in assignments.items()
    ]
    request = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id=None,
        assignments=rows,
    )
    return await kafka.ask(request, 3)


async def beat(kafka: Kafka, joined, group="g") -> int:
    request = HeartbeatRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id=None,
    )
    return (await kafka.ask(request, 3)).error_code


# -- members -------------------------------------------------------------------------------------


async def test_two_members_share_the_work_and_one_takes_over():
    async with (
        gateway() as running,
        running.connected() as one,
        running.connected() as two,
    ):
        answers = {}

        async def joins(name, kafka):
            answers[name] = await join(kafka)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(joins, "one", one)
            tasks.start_soon(joins, "two", two)
        first, second = answers["one"], answers["two"]
        assert first.generation_id == second.generation_id
        leads, follows = (one, first), (two, second)
        if second.members:
            leads, follows = follows, leads
        assert {row.member_id for row in leads[1].members} == {first.member_id, second.member_id}
        assigned = {leads[1].member_id: b"all", follows[1].member_id: b"none"}
        assert (await sync(*leads, assigned)).assignment == b"all"
        assert (await sync(*follows, {})).assignment == b"none"
        assert await beat(*follows) == 0
        leave = LeaveGroupRequest(group_id="g", member_id=leads[1].member_id)
        assert (await leads[0].ask(leave, 2)).error_code == 0
        assert await beat(*follows) == Code.REBALANCE_IN_PROGRESS
        again = await follows[0].ask(join_request(member=follows[1].member_id), 5)
        assert (again.generation_id, again.leader) == (
            first.generation_id + 1,
            follows[1].member_id,
        )


async def test_a_member_that_hangs_is_replaced_while_another_waits():
    async with gateway() as running, running.connected() as one, running.connected() as two:
        hung = await join(one, session_ms=100)
        await sync(one, hung, {hung.member_id: b"all"})
        took_over = await join(two)
        assert took_over.generation_id == hung.generation_id + 1
        assert [row.member_id for row in took_over.members] == [took_over.member_id]
        assert await beat(one, hung) == Code.UNKNOWN_MEMBER_ID


async def test_a_static_member_is_back_at_once():
    async with gateway() as running:
        async with running.connected() as kafka:
            first = await join(kafka, instance="i")
            assert (await sync(kafka, first, {first.member_id: b"all"})).assignment == b"all"
        async with running.connected() as kafka:  # it has crashed, and was started again
            again = await join(kafka, instance="i")
            assert again.generation_id == first.generation_id
            assert (await sync(kafka, again, {})).assignment == b"all"
            assert await beat(kafka, again) == 0


async def test_groups_are_listed_and_described():
    async with gateway() as running, running.connected() as kafka:
        joined = await join(kafka)
        await sync(kafka, joined, {joined.member_id: b"all"})
        await kafka.metadata("a")
        assert await commit(kafka, 0, group="alone") == 0
        listed = await kafka.ask(ListGroupsRequest(), 2)
        assert [(row.group_id, row.protocol_type) for row in listed.groups] == [
            ("alone", "consumer"),
            ("g", "consumer"),
        ]
        request = DescribeGroupsRequest(
            groups=["g", "alone", "none"], include_authorized_operations=False
        )
        described = await kafka.ask(request, 4)
        assert [row.group_state for row in described.groups] == ["Stable", "Empty", "Dead"]
        (member,) = described.groups[0].members
        assert (member.member_id, member.client_id) == (joined.member_id, "test")
        assert (member.client_host, member.member_assignment) == ("/127.0.0.1", b"all")
        assert (described.groups[0].protocol_data, member.member_metadata) == (
            "range",
            b"reads a",
        )


async def test_one_group_too_many_is_refused_unless_another_is_idle(monkeypatch):
    monkeypatch.setattr(coordinator_module, "MAX_GROUPS", 1)
    async with gateway() as running, running.connected() as kafka:
        first = await join(kafka, "one")
        assert (await join(kafka, "two")).error_code == Code.GROUP_MAX_SIZE_REACHED
        leave = LeaveGroupRequest(group_id="one", member_id=first.member_id)
        await kafka.ask(leave, 2)
        assert (await join(kafka, "two")).error_code == 0


async def test_a_user_cannot_take_all_the_room_for_groups(monkeypatch):
    monkeypatch.setattr(coordinator_module, "MAX_GROUPS", 3)
    coordinator = coordinator_module.Coordinator()
    now = anyio.current_time()
    for name in ("one", "two"):
        coordinator.open("ana", name).join(JOINING, now)
    with pytest.raises(coordinator_module.TooManyGroups, match="has 2 groups"):
        coordinator.open("ana", "three")
    coordinator.open("bob", "one").join(JOINING, now)
    with pytest.raises(coordinator_module.TooManyGroups, match="3 groups, which is the limit"):
        coordinator.open("bob", "two")


async def test_a_user_cannot_take_all_that_members_may_say(monkeypatch):
    coordinator = coordinator_module.Coordinator()
    group = coordinator.open("ana", "one")
    group.join(JOINING, anyio.current_time())
    monkeypatch.setattr(coordinator_module, "MAX_BYTES", 2 * group.size)
    assert not coordinator.has_room("ana", 1)
    assert coordinator.has_room("bob", group.size)
    assert not coordinator.has_room("bob", group.size + 1)


async def test_what_members_say_of_themselves_has_a_bound_for_all_groups(monkeypatch, caplog):
    """Each may say little enough, and a quarter of a million of them be too many for the memory."""
    async with gateway() as running, running.connected() as kafka:
        first = await join(kafka, "one")
        held = running.gateway.shared.coordinator.find("", "one").size
        monkeypatch.setattr(coordinator_module, "MAX_BYTES", held + 3)
        assert (await join(kafka, "two")).error_code == Code.GROUP_MAX_SIZE_REACHED
        assert "JoinGroup 'two': GROUP_MAX_SIZE_REACHED" in caplog.text
        much = await sync(kafka, first, {first.member_id: b"much"}, group="one")
        assert much.error_code == Code.GROUP_MAX_SIZE_REACHED
        assert (await sync(kafka, first, {first.member_id: b"all"}, group="one")).error_code == 0


@pytest.mark.parametrize("group", ["", "g" * 2000])
async def test_a_group_needs_a_name_that_fits(group):
    async with gateway() as running, running.connected() as kafka:
        await kafka.metadata("a")
        assert (await join(kafka, group)).error_code == Code.INVALID_GROUP_ID
        assert await commit(kafka, 1, group=group) == Code.INVALID_GROUP_ID


async def test_groups_of_two_names_are_two():
    async with gateway() as running, running.connected() as one, running.connected() as two:
        first, second = await join(one, "one"), await join(two, "two")
        assert first.generation_id == second.generation_id == 1
        assert (first.leader, second.leader) == (first.member_id, second.member_id)


async def test_the_coordinator_is_the_gateway_and_has_no_transactions():
    async with gateway() as running, running.connected() as kafka:
        found = await kafka.ask(FindCoordinatorRequest(key="g", key_type=0), 2)
        assert (found.error_code, found.port) == (0, running.gateway.port)
        refused = await kafka.ask(FindCoordinatorRequest(key="t", key_type=1), 2)
        assert refused.error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


# -- positions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("group", FREE_TEXT)
async def test_a_position_outlives_the_gateway_whatever_the_groups_name(group, tmp_path):
    async with zaichik.running_broker(data=tmp_path) as broker:
        async with gateway(broker=broker) as running, running.connected() as kafka:
            await kafka.produce("a", batch(*[(None, b"1")] * 9))
            assert await commit(kafka, 5, group=group) == 0
            assert await commit(kafka, 7, group=group, note="half way") == 0
        async with gateway(broker=broker) as running, running.connected() as kafka:
            assert await committed(kafka, group) == {"a": (7, "half way")}
            assert await committed(kafka, group, None) == {"a": (7, "half way")}
            assert await committed(kafka, "other") == {"a": (-1, "")}


async def test_positions_are_a_table_that_lasts_as_long_as_the_broker_can(tmp_path):
    async with gateway() as running:
        settings = (await running.client.topic(OFFSETS))["settings"]
        assert (settings["table"], settings.get("durable", 0)) == (1, 0)
    async with gateway(data=tmp_path) as running:
        settings = (await running.client.topic(OFFSETS))["settings"]
        assert (settings["table"], settings["durable"]) == (1, 1)


async def test_a_topic_in_the_place_of_the_table_keeps_the_gateway_from_starting():
    async with zaichik.running_broker() as broker, zaichik.connect(port=broker.port) as client:
        await client.create_topic(OFFSETS, table=False)
        with pytest.raises(zaichik.TopicExists):
            await Gateway.listening(client, 0)


async def test_a_topic_made_again_has_no_position(caplog):
    """Its offsets mean something else: a consumer would skip messages in silence."""
    async with gateway() as running, running.connected() as kafka:
        await kafka.produce("a", batch(*[(None, b"1")] * 9))
        assert await commit(kafka, 5) == 0
        await running.client.delete_topic("a")
        await kafka.produce("a", batch(*[(None, b"2")] * 9))
        assert await committed(kafka) == {"a": (-1, "")}
        assert "the topic is another one than it has read" in caplog.text


async def test_a_broker_that_has_lost_everything_gets_its_table_again():
    """Positions from before are of topics that are gone, and mean nothing in the new ones."""
    with embedded_broker() as broker:
        async with gateway(broker=broker) as running, running.connected() as kafka:
            await kafka.produce("a", batch(*[(None, b"1")] * 9))
            assert await commit(kafka, 5) == 0
            await anyio.to_thread.run_sync(broker.stop)
            await anyio.to_thread.run_sync(broker.start)
            broker.clock.advance(1)
            await kafka.produce("a", batch(*[(None, b"2")] * 9))
            assert await committed(kafka) == {"a": (-1, "")}
            assert await commit(kafka, 1) == 0
            assert await committed(kafka) == {"a": (1, "")}
            assert (await running.client.topic(OFFSETS))["settings"]["table"] == 1


async def test_what_is_asked_for_many_times_is_answered_once():
    """A small request would have a response of a gigabyte otherwise."""
    async with gateway() as running, running.connected() as kafka:
        await kafka.metadata("a")
        await commit(kafka, 0, note="n" * 1000)
        row = OffsetFetchRequest.OffsetFetchRequestTopic(name="a", partition_indexes=[1, 0, 0])
        asked = OffsetFetchRequest(group_id="g", topics=[row, row])
        (topic,) = (await kafka.ask(asked, 5)).topics
        assert [(p.partition_index, len(p.metadata)) for p in topic.partitions] == [
            (0, 1000),
            (1, 0),
        ]
        groups = DescribeGroupsRequest(groups=["g", "g"], include_authorized_operations=False)
        assert [row.group_id for row in (await kafka.ask(groups, 4)).groups] == ["g"]


@pytest.mark.parametrize(
    ("key", "payload"),
    [
        (b"\0", b"rubbish"),
        (b"rubbish", b"5"),
        (b'["", "g"]', b"{}"),
        (b'["", "g", "a"]', b"[]"),
        (b'["", "g", "a"]', b'{"offset": "x", "epoch": 1}'),
        (b'["", "g", "a"]', b'{"epoch": 1}'),
        (b"5", b"5"),
        (b'["", "g", "a"]', b"[" * 100_000),
        (b'["", "g", "a"]', b'{"offset": Infinity, "epoch": 1}'),
        (b'["", "g", "a"]', b'{"offset": 1e30, "epoch": 1}'),
        (b'["", "g", "a"]', b'{"offset": -2, "epoch": 1}'),
        (b'["", "g", "a"]', b'{"offset": 1, "epoch": 1, "note": "%s"}' % (b"n" * 40_000)),
        (b'["", "\\ud800", "a"]', b'{"offset": 1, "epoch": 1}'),
        (b'["", "g", "a"]', b'{"offset": 1, "epoch": 1, "note": "\\ud800"}'),
    ],
)
async def test_a_position_that_cannot_be_read_is_passed_over(key, payload, caplog):
    async with zaichik.running_broker() as broker:
        async with zaichik.connect(port=broker.port) as client:
            await client.create_topic(OFFSETS, table=True)
            await client.publish(OFFSETS, payload, key=key)
        async with gateway(broker=broker) as running, running.connected() as kafka:
            assert await committed(kafka) == {"a": (-1, "")}
    assert "a position cannot be read, and is passed over" in caplog.text


async def test_a_deleted_position_is_none():
    async with zaichik.running_broker() as broker:
        async with gateway(broker=broker) as running, running.connected() as kafka:
            await kafka.metadata("a")
            assert await commit(kafka, 0) == 0
            await running.client.publish(OFFSETS, None, key=b'["", "g", "a"]')
        async with gateway(broker=broker) as running, running.connected() as kafka:
            assert await committed(kafka, topic=None) == {}


async def test_only_a_member_of_the_generation_commits():
    async with gateway() as running, running.connected() as kafka:
        await kafka.metadata("a")
        joined = await join(kafka)
        await sync(kafka, joined, {joined.member_id: b"all"})
        assert await commit(kafka, 1, joined=joined) == 0
        assert await commit(kafka, 2) == Code.UNKNOWN_MEMBER_ID
        joined.generation_id += 1
        assert await commit(kafka, 3, joined=joined) == Code.ILLEGAL_GENERATION
        assert await committed(kafka) == {"a": (1, "")}


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"topic": "none"}, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ({"topic": "kafka/offsets"}, Code.TOPIC_AUTHORIZATION_FAILED),
        ({"partition": 1}, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ({"note": "x" * 5000}, Code.OFFSET_METADATA_TOO_LARGE),
    ],
)
async def test_a_position_that_makes_no_sense_is_refused(settings, code):
    async with gateway() as running, running.connected() as kafka:
        await kafka.metadata("a")
        assert await commit(kafka, 1, **settings) == code


async def test_a_table_that_is_full_refuses_positions(caplog):
    async with zaichik.running_broker() as broker:
        async with zaichik.connect(port=broker.port) as client:
            await client.create_topic(OFFSETS, table=True, capacity=1)
        async with gateway(broker=broker) as running, running.connected() as kafka:
            await kafka.metadata("a")
            assert await commit(kafka, 1) == 0
            assert await commit(kafka, 2) == 0
            assert await commit(kafka, 3, group="other") == Code.INVALID_COMMIT_OFFSET_SIZE
            assert await committed(kafka) == {"a": (2, "")}
            assert await committed(kafka, "other") == {"a": (-1, "")}
    assert "are not stored" in caplog.text
