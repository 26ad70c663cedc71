"""Bugs in the gateway for Kafka's clients. Each is one wrong expression or statement.

`planting` says how a place and its code are written. The bug is planted in the running program, and
the test that is named must notice it.
"""

from dataclasses import dataclass

from planting import plant, planted


@dataclass(frozen=True)
class KafkaSlip:
    """A wrong line.

    Attributes:
        name: what is wrong.
        where: the method or function that has it.
        right: what stands there, an expression or statements; `wrong` stands there instead.
        caught_by: the test that notices it, as module:function.
        arguments: of that test, besides fixtures.
        nth: which one, counted from 1, if what is right is there several times.
    """

    name: str
    where: str
    right: str
    wrong: str
    caught_by: str
    arguments: tuple = ()
    nth: int = 0

    @property
    def test(self) -> str:
        """The file of the test below `tests`, and its name."""
        module, _, function = self.caught_by.partition(":")
        return f"apps/kafka/{module}.py::{function}"

    def planted(self):
        """The file that has the slip, and its text with it."""
        return planted(self.where, self.right, self.wrong, self.nth)

    def plant(self, monkeypatch):
        """Replace the method by the wrong one, which uses all else as it is."""
        plant(monkeypatch, self.where, self.right, self.wrong, self.nth)


def slip(name, where, right, wrong, caught_by, *arguments, nth=0):
    return KafkaSlip(name, f"kafka.{where}", right, wrong, caught_by, arguments, nth)


SIMULATION = "test_groups_simulation:run_once"

KAFKA_SLIPS = [
    slip(
        "the memory of a request is not given back",
        "memory:Memory.taking",
        "taken.shrink(0)",
        "pass",
        "test_connection:test_all_memory_is_given_back",
    ),
    slip(
        "the memory of a response is not given back",
        "session:Session.response_sent",
        "self.response.shrink(0)",
        "pass",
        "test_connection:test_all_memory_is_given_back",
    ),
    slip(
        "a fetch without memory is answered with records",
        "session:Session.room_for_response",
        "return 0",
        "return size",
        "test_connection:test_a_fetch_that_finds_no_memory_is_answered_without_records",
    ),
    slip(
        "a user's connection keeps its place",
        "connection:Connection._release",
        "self._shared.connections.give_back(self._session.user)",
        "pass",
        "test_logins:test_a_connection_that_has_ended_gives_its_place_back",
    ),
    slip(
        "connections with a login make room as well",
        "gateway:Gateway._secured_and_served",
        "partial(self._newcomers.pop, newcomer, None)",
        "int",
        "test_logins:test_one_without_a_login_makes_room_for_a_newer_one",
    ),
    slip(
        "a user may have all groups",
        "coordinator:Coordinator._are_used_up",
        "shares.may_take(user)",
        'shares.may_take("")',
        "test_positions:test_a_user_cannot_take_all_the_room_for_groups",
    ),
    slip(
        "only the last batch is remembered",
        "producers:Producer.store_done",
        "self.begun = None",
        "self.begun = None; self.batches.clear()",
        "test_producers:test_a_repeat_of_one_of_the_last_five_gets_its_first_answer",
    ),
    slip(
        "an epoch that is over still writes",
        "producers:Producer.answer_of",
        "batch.epoch < self.epoch",
        "False",
        "test_producers:test_a_newer_epoch_begins_at_zero_and_ends_the_older_one",
    ),
    slip(
        "a gap between batches is not noticed",
        "producers:Producer.answer_of",
        "batch.sequence != self.next",
        "batch.sequence < self.next",
        "test_producers:test_a_gap_is_out_of_order",
    ),
    slip(
        "numbers do not begin at zero again",
        "producers:Producer.store_done",
        "(batch.sequence + len(batch.rows)) % SEQUENCES",
        "batch.sequence + len(batch.rows)",
        "test_producers:test_after_the_last_number_comes_zero",
    ),
    slip(
        "a batch takes the place of one that has failed",
        "produce:_store",
        "producer.store_failed(batch)",
        "pass",
        "test_messages:test_no_batch_takes_the_place_of_the_first_one_that_failed",
    ),
    slip(
        "a batch is checked by two connections at once",
        "produce:_store",
        "await producer.lock.acquire()",
        "await type(producer.lock)().acquire()",
        "test_messages:test_a_batch_sent_over_several_connections_at_once_is_stored_once",
    ),
    slip(
        "a batch that was stored in part begins anew",
        "producers:Producer.stored_of",
        "begun is None",
        "True",
        "test_messages:test_a_batch_stored_in_part_is_completed_by_its_repeat",
    ),
    slip(
        "a zero byte in a group's name splits its key",
        "positions:_key",
        "json.dumps(place, ensure_ascii=False)",
        "'\\0'.join(place)",
        "test_positions:test_a_position_outlives_the_gateway_whatever_the_groups_name",
        "zero\0byte",
    ),
    slip(
        "a position that cannot be read keeps the gateway from starting",
        "positions:Positions._read",
        "_UNREADABLE",
        "(KeyError, AttributeError)",
        "test_positions:test_a_position_that_cannot_be_read_is_passed_over",
        b"rubbish",
        b"5",
    ),
    slip(
        "a position outlives its topic",
        "commits:_position",
        "int(state['epoch']) != position.epoch",
        "False",
        "test_positions:test_a_topic_made_again_has_no_position",
    ),
    slip(
        "a position is answered before it is stored",
        "positions:Positions.store",
        "await self._client.publish_batch(OFFSETS, batch)",
        "pass",
        "test_positions:test_a_position_outlives_the_gateway_whatever_the_groups_name",
        "g",
    ),
    slip(
        "what was evicted is jumped over in silence",
        "readings:Reading.taken",
        "state is None or state['head'] > item.start",
        "state is None",
        "test_messages:test_a_gap_in_the_middle_is_passed_over_and_one_at_the_head_is_not",
        5,
    ),
    slip(
        "a gap in the middle sends the consumer to the head, for ever",
        "readings:Reading.taken",
        "state['head'] > item.start",
        "state['head'] > item.start - 10",
        "test_messages:test_a_gap_in_the_middle_is_passed_over_and_one_at_the_head_is_not",
        0,
    ),
    slip(
        "an offset below the head is subscribed to",
        "readings:Readings.at",
        "head <= offset <= end",
        "offset <= end",
        "test_messages:test_an_offset_that_is_not_there_is_out_of_range",
        -1,
    ),
    slip(
        "a tombstone comes back as an empty payload",
        "readings:Reading._rows",
        "is_table and key",
        "False",
        "test_messages:test_null_deletes_a_key_in_a_table_and_comes_back_as_null",
    ),
    slip(
        "the next offset is wrong after holes",
        "readings:Reading._packed",
        "frame.base + deltas[-1] + 1",
        "frame.base + batch.count",
        "test_messages:test_a_fetch_after_holes_goes_on_in_its_subscription",
    ),
    slip(
        "checksums are not looked at",
        "records:unpack",
        "crc32c(data[BEFORE_ATTRIBUTES:end]) != checksum",
        "False",
        "test_records:test_a_changed_byte_is_refused",
    ),
    slip(
        "a partition may have several batches",
        "records:unpack",
        "end < len(data)",
        "False",
        "test_records:test_a_partition_has_exactly_one_batch",
    ),
    slip(
        "an empty key is taken for a key",
        "records:_row",
        "key == b''",
        "False",
        "test_messages:test_an_empty_key_is_refused",
    ),
    slip(
        "what is unpacked has no bound",
        "compression:_check_size",
        "size > MAX_UNPACKED",
        "size < 0",
        "test_records:test_what_unpacks_to_too_much_is_refused",
        "gzip",
    ),
    slip(
        "lengths are taken at their word",
        "frames:decoded",
        "again != body",
        "False",
        "test_connection:test_recorded_requests_are_read_whole_and_cut_ones_are_refused",
        "java_group",
    ),
    slip(
        "a client that is too new is answered in a version it may not know",
        "connection:Connection._versions",
        "0 <= header.version <= REQUESTS[API_VERSIONS].newest",
        "True",
        "test_connection:test_a_newer_api_versions_is_answered_in_version_0_with_the_list",
        4,
    ),
    slip(
        "a large request ends the connection",
        "connection:Connection._refuse_unread",
        "header.key != PRODUCE",
        "True",
        "test_connection:test_a_produce_that_is_too_large_is_answered_and_not_stored",
    ),
    slip(
        "clients may forge positions",
        "names:refusal",
        "name.startswith(OWN)",
        "False",
        "test_messages:test_what_has_no_place_is_refused",
        "kafka/offsets",
        0,
        29,
    ),
    slip(
        "a topic that a client makes has the default ring",
        "topics:Topics._create",
        "self._in_memory | wanted",
        "wanted",
        "test_topics:test_a_topic_made_by_a_client_keeps_a_million_messages",
    ),
    slip(
        "a check makes the topic",
        "admin:_create",
        "only_check",
        "False",
        "test_topics:test_what_cannot_be_created_is_refused_and_a_check_makes_nothing",
        {"only_check": True},
        0,
    ),
    slip(
        "generations are not counted",
        "groups:Group._begin",
        "self.generation += 1",
        "pass",
        SIMULATION,
    ),
    slip(
        "all read what the leader reads",
        "groups:Group._assign",
        "assignments.get(name, b'')",
        "assignments.get(self.leader, b'')",
        SIMULATION,
    ),
    slip(
        "a former generation still syncs",
        "groups:Group.check",
        "generation != self.generation",
        "False",
        "test_groups:test_a_member_more_makes_a_generation_more",
    ),
    slip(
        "silent members stay",
        "groups:Group.expire",
        "not member.is_waiting and member.seen + member.joining.session_seconds <= now",
        "False",
        SIMULATION,
    ),
    slip(
        "syncs wait for ever when a member joins",
        "groups:Group._prepare",
        "_settle_sync(member, Synced(Code.REBALANCE_IN_PROGRESS))",
        "pass",
        "test_groups:test_a_leader_that_does_not_assign_is_removed",
    ),
    slip(
        "a static member that was restarted believes that it must assign",
        "groups:Group._replace",
        "Joined(Code.NONE, joining.member, self.generation, self.protocol, leader_before)",
        "self._joined(joining.member)",
        "test_groups:test_a_static_member_that_was_restarted_goes_on_with_its_part",
        0,
    ),
    slip(
        "a connection outlives that of its user to the broker",
        "codes:code_of",
        "isinstance(error, ConnectionLost)",
        "False",
        "test_logins:test_a_user_whose_login_has_ended_is_disconnected",
    ),
    slip(
        "all users share their groups",
        "coordinator:Coordinator.open",
        "self._groups.get((user, name))",
        "next(iter(self._groups.values()), None)",
        "test_positions:test_groups_of_two_names_are_two",
    ),
]
