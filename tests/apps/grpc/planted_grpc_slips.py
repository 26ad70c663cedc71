"""Bugs in the gateway for gRPC, each of which a named test finds.

They are slips as those in `planted_slips.py`, in a table of their own.
"""

from planted_slips import Slip

FOLDER = "apps/grpc"
TOPICS = f"{FOLDER}/test_topics.py::test"
PUBLISHING = f"{FOLDER}/test_publishing.py::test"
READING = f"{FOLDER}/test_reading.py::test"
LOGINS = f"{FOLDER}/test_logins.py::test"
GATEWAY = f"{FOLDER}/test_gateway.py::test"

GRPC_SLIPS = [
    # -- topics --------------------------------------------------------------------------------
    Slip(
        "milliseconds are taken for seconds",
        "topic_settings:_duration",
        "milliseconds / 1000",
        "milliseconds",
        f"{TOPICS}_a_topic_is_created_once_and_has_the_settings_that_were_named",
    ),
    Slip(
        "whichever topic has the name is deleted",
        "Service.DeleteTopic",
        "request.epoch",
        "0",
        f"{TOPICS}_only_the_topic_that_is_meant_is_deleted",
    ),
    # -- publishing ----------------------------------------------------------------------------
    Slip(
        "a tombstone is a message like any other",
        "service:_to_publish",
        "return key, None",
        "return key, message.payload",
        f"{PUBLISHING}_a_tombstone_deletes_its_key_from_a_table",
    ),
    Slip(
        "what the fields of the largest batch add is not counted",
        "gateway:_limits",
        "client.welcome.max_batch * MESSAGE_OVERHEAD",
        "0",
        f"{PUBLISHING}_the_largest_batch_is_taken",
    ),
    Slip(
        "numbers of batches are left out",
        "Service.Publish",
        "request.producer",
        "0",
        f"{PUBLISHING}_a_numbered_batch_that_is_sent_again_is_stored_once",
    ),
    # -- reading -------------------------------------------------------------------------------
    Slip(
        "what was sent is committed",
        "Service.Subscribe",
        '"explicit"',
        '"automatic"',
        f"{READING}_reading_alone_commits_nothing",
    ),
    Slip(
        "a reader that stops has as much as it likes sent",
        "Service.Subscribe",
        "CREDIT_BYTES",
        "2**30",
        f"{READING}_a_reader_that_stops_makes_the_gateway_hold_no_more_than_its_credit",
    ),
    Slip(
        "what ends a call in the background is taken for a bug",
        "Service._answering",
        "_first_of(error)",
        "error",
        f"{READING}_an_offset_that_was_not_delivered_cannot_be_committed",
    ),
    Slip(
        "a reader is not told that messages were delivered before",
        "service:_deliver",
        "subscription.redelivered",
        "False",
        f"{READING}_reading_alone_commits_nothing",
    ),
    # -- logins --------------------------------------------------------------------------------
    Slip(
        "a call without a login gets to the broker",
        "grpc.logins:Logins.user",
        "credentials is None and self._asks",
        "False",
        f"{LOGINS}_a_call_without_a_login_never_gets_the_rights_of_the_gateway",
    ),
    Slip(
        "failures are counted for a connection and not for an address",
        "grpc.logins:address_of",
        'unquote(peer).partition(":")',
        'peer.partition(":")',
        f"{LOGINS}_failures_are_counted_by_the_address_of_a_caller",
    ),
    # -- the server ----------------------------------------------------------------------------
    Slip(
        "other machines reach a broker that asks nobody",
        "gateway:_check_reachable",
        "not asks",
        "False",
        f"{GATEWAY}_other_machines_do_not_reach_it_if_the_broker_asks_nobody",
    ),
    Slip(
        "damaged requests are the gateway's fault",
        "service:_abort",
        "StatusCode.INVALID_ARGUMENT",
        "StatusCode.INTERNAL",
        f"{GATEWAY}_bytes_that_are_no_request_are_the_callers_fault",
        nth=2,
    ),
    Slip(
        "a batch of too many messages is converted before it is refused",
        "service:Service.Publish",
        "_check_count(request, client.welcome.max_batch)",
        "pass",
        f"{PUBLISHING}_messages_of_a_batch_that_has_too_many_are_not_looked_at",
    ),
    Slip(
        "callers read what a bug has said",
        "service:_abort",
        'f"the gateway has a bug; its log says more [{code}]"',
        'f"{error} [{code}]"',
        f"{GATEWAY}_a_bug_ends_its_call_only_and_is_logged",
    ),
    Slip(
        "the least time between pings is one that the library does not know",
        "gateway:_limits",
        '"grpc.http2.min_ping_interval_without_data_ms"',
        '"grpc.http2.min_recv_ping_interval_without_data_ms"',
        f"{GATEWAY}_a_client_that_pings_no_more_often_than_it_may_stays",
    ),
]
