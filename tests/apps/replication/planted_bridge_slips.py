"""Bugs in the bridge to Kafka. Each is one wrong expression or statement.

`planting` says how a place and its code are written. The bug is planted in the running program, and
the test that is named must notice it.
"""

from running_slips import RunningSlip


def slip(name, where, right, wrong, caught_by, *arguments):
    return RunningSlip(
        "apps/replication", name, f"replication.{where}", right, wrong, caught_by, arguments
    )


KILLED = "test_bridge:test_each_message_once_wherever_it_is_killed"

BRIDGE_SLIPS = [
    slip(
        "the name is settled before the round is in Kafka",
        "bridge:Bridge._follow",
        "self._replicate(part, transactions, place)",
        "subscription.commit(subscription.next - 1)\nself._replicate(part, transactions, place)",
        KILLED,
        "commit",
    ),
    slip(
        "what Kafka has is written again",
        "round:Round._add",
        "rest_of(item, here.next)",
        "item",
        KILLED,
        "committed",
    ),
    slip(
        "an earlier bridge is fenced before it is looked whether this one may go on",
        "bridge:Bridge._run_with_one_producer",
        "place = self._place()\nself._look_where()",
        "place = self._place()",
        "test_bridge:test_another_epoch_ends_it_with_both",
    ),
    slip(
        "no watermark is published at the start",
        "bridge:Bridge._run_with_one_producer",
        "self._source.publish_watermark(self._position)\nself._begin()",
        "self._begin()",
        "test_bridge:test_the_watermark_is_published_at_every_start",
    ),
    slip(
        "a watermark that a restart has lost is not published again",
        "bridge:Bridge._look",
        "self._source.was_reconnected",
        "False",
        "test_bridge:test_a_watermark_that_a_restart_has_lost_is_published_again",
    ),
    slip(
        "a round that was aborted is taken for written",
        "transactions:Transactions.send",
        "self._waiting.stop.wait(next(pauses))",
        "return",
        "test_transactions:test_after_an_abort_the_round_is_written_again",
        "commit",
    ),
    slip(
        "a gap is written as one message",
        "round:Round._write_gap",
        "fields.append(record.gap_field(gap.end))",
        "pass",
        "test_bridge:test_what_was_evicted_is_a_gap",
    ),
    slip(
        "gaps are forgotten with the bridge",
        "position:CommittedEnd._read",
        "gaps = Gaps.decoded(header.gaps)",
        "pass",
        "test_bridge:test_gaps_outlive_the_bridge",
    ),
    slip(
        "a bridge that is fenced comes back",
        "transactions:Transactions._raise_if_fatal",
        "found.code() == KafkaError._FENCED and time.monotonic() - begun < self._timeout_s",
        "False",
        "test_transactions:test_a_bridge_that_is_fenced_is_replaced",
        "commit",
    ),
    slip(
        "a producer that was lost comes back, whoever has written meanwhile",
        "bridge:Bridge._look_where",
        "self._possible and found.next not in self._possible",
        "False",
        "test_bridge:"
        "test_a_producer_that_was_lost_does_not_come_back_if_another_bridge_has_written",
    ),
    slip(
        "nobody looks after a commit whether the topic is still the same",
        "transactions:Transactions.send",
        "self._waiting.answered()\ncheck()",
        "self._waiting.answered()",
        "test_bridge:test_a_topic_of_kafka_that_was_made_again_ends_it",
    ),
    slip(
        "a name that is ahead of Kafka is put up with",
        "source:Source.check_name",
        "settled <= position.next",
        "True",
        "test_bridge:test_a_name_that_is_ahead_of_kafka_ends_it_with_the_offsets",
    ),
    slip(
        "bridges of two clusters have the same id",
        "transactions:identity",
        'f"zaichik/{cluster}/{topic}"',
        'f"zaichik/{topic}"',
        "test_transactions:test_the_id_is_that_of_the_destination",
    ),
    slip(
        "a beginning that is gone is not missed",
        "position:CommittedEnd._check_first",
        "first == 0",
        "True",
        "test_position:test_a_beginning_that_is_gone_is_refused_and_can_be_put_up_with",
        "position",
    ),
    slip(
        "a transaction of others is not waited for",
        "position:CommittedEnd.wait_for_others",
        "committed >= self._end(admin, IsolationLevel.READ_UNCOMMITTED)",
        "committed >= 0",
        "test_position:test_a_transaction_of_others_is_waited_for",
    ),
]
