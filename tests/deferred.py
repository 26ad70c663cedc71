"""Which tests `make test` leaves to `make test-all`, how long they take, and why.

They show more of what a shorter test shows: the same rule on a second event loop or over TLS, the
tutorial typed to its end, bugs that were planted. `tests/conftest.py` marks them `deferred`, by
what is written here; nothing else chooses. Seconds are of processor time, those of the programs
that a test starts included. Those with a decimal were measured with `--costs` (tests/costs.py), on
a busy machine, where everything takes up to half as much again; whole ones are estimates.
"""

from dataclasses import dataclass

# Where code waits for something: a socket, a clock, a lock, another task. The two event loops
# differ in when a task that waits is resumed, and in how it is cancelled, so there each test runs
# on both. What computes does not know its event loop.
WAITING = (
    "tests/apps/cluster/test_hosting.py",
    "tests/apps/gateways/test_claim.py",
    "tests/apps/kafka/test_memory.py",
    "tests/apps/mqtt/test_replication.py",
    "tests/apps/mqtt/test_sessions.py",
    "tests/apps/users/",
    "tests/apps/work/test_job.py",
    "tests/apps/work/test_pool.py",
    "tests/apps/work/test_queue_state.py",
    "tests/apps/work/test_topic.py",
    "tests/cli/test_signals.py",
    "tests/cli/test_status_line.py",
    "tests/client/blocking/",
    "tests/client/cluster/test_cluster.py",
    "tests/client/cluster/test_known_map.py",
    "tests/client/patterns/test_follower.py",
    "tests/client/patterns/test_subscription.py",
    "tests/client/replication/test_holding_back.py",
    "tests/client/replication/test_producing.py",
    "tests/client/replication/test_publishing.py",
    "tests/client/test_connection.py",
    "tests/client/test_dialer.py",
    "tests/client/test_heartbeat.py",
    "tests/client/test_opening.py",
    "tests/client/test_reconnecting.py",
    "tests/client/test_resuming.py",
    "tests/client/test_subscription.py",
    "tests/client/test_transport.py",
    "tests/client/work/test_at_a_broker.py",
    "tests/client/work/test_histories.py",
    "tests/client/work/test_inbox.py",
    "tests/client/work/test_message.py",
    "tests/client/work/test_returning.py",
    "tests/client/work/test_settling.py",
    "tests/client/work/test_subscription.py",
    "tests/docs/site/test_in_memory.py",
    "tests/net/test_background.py",
    "tests/net/test_listener.py",
    "tests/net/test_repeating.py",
    "tests/net/test_served.py",
    "tests/net/test_socket_stream.py",
    "tests/net/test_tls.py",
    "tests/net/test_wakeup.py",
    "tests/server/access/test_handshakes.py",
    "tests/server/access/test_newcomers.py",
    "tests/server/test_connection.py",
    "tests/server/test_durable.py",
    "tests/server/test_gate.py",
    "tests/server/test_greeting.py",
    "tests/server/test_hung_disk.py",
    "tests/server/test_running.py",
    "tests/server/test_server.py",
    "tests/server/test_threads.py",
)

BLACK_BOX = "tests/test_black_box.py::"
# TLS has records, a handshake and an end of its own. So its checks are of how bytes are cut, of
# much at once, and of how a connection begins and ends; what a request means is not its business.
OVER_TLS = (
    "test_welcome_",
    "test_first_frame_must_be_hello",
    "test_length_before_hello_",
    "test_requests_need_not_wait_for_welcome",
    "test_any_error_in_answer_to_hello_",
    "test_frames_may_come_",
    "test_frame_may_be_split_",
    "test_close_",
    "test_who_publishes_to_itself_without_reading_",
    "test_no_more_than_credit_bytes_",
)


@dataclass(frozen=True, slots=True)
class Deferred:
    """Tests that `make test` leaves out.

    Attributes:
        tests: how their names begin, with the path of their file.
        seconds: of processor time, in all.
        why: what `make test` still runs of it, or where else it is shown.
        kept: a sample that stays: pieces of their names.
        only: a piece of the names of those that are left out; "": of all.
    """

    tests: str
    seconds: float
    why: str
    kept: tuple[str, ...] = ()
    only: str = ""

    def has(self, name: str) -> bool:
        """Whether the test of this name is left out."""
        if not name.startswith(self.tests) or self.only not in name:
            return False
        return not any(piece in name for piece in self.kept)


DEFERRED = (
    Deferred(
        "tests/tutorial/test_reading.py::test_what_the_text_shows_",
        75,
        "a short chapter and one with a broker are read, and planted mistakes",
        kept=("[01-", "[11-"),
    ),
    Deferred(
        "tests/tutorial/test_claims.py::test_a_step_",
        41,
        "two steps pass their stages, and two fail the next",
        kept=("[02-frames-end]", "[05-task-groups-middle]"),
    ),
    Deferred(
        "tests/tutorial/test_exercises.py::test_the_solution_is_right",
        18,
        "a sample of the answers is judged",
        kept=("[0.", "[1.3]", "[2.", "[15.", "[17."),
    ),
    Deferred(
        "tests/tutorial/test_exercises.py::test_the_stub_fails_",
        8,
        "a sample of the stubs is judged",
        kept=("[0.", "[1.3]", "[2.", "[14.", "[17."),
    ),
    Deferred(
        "tests/tutorial/test_exercises.py::test_the_last_hint_is_not_the_solution",
        1,
        "judges the same stubs once more",
        kept=("[0.", "[1.3]", "[2.", "[14.", "[17."),
    ),
    Deferred(
        "tests/tutorial/test_exercises.py::test_a_plausible_wrong_answer_",
        6,
        "a sample of the answers is judged",
        kept=("_7_1]", "_8_1]", "_15_1]"),
    ),
    Deferred(
        "tests/learn/test_brokers.py::test_the_project_s_broker_passes_every_",
        23,
        "tests/server and the black box have the same rules; tests/learn has each check's own",
    ),
    Deferred(
        "tests/learn/test_mutants.py::test_a_wrong_broker_fails_where_it_is_wrong",
        60,
        "a sample would leave the next one nothing to add up; three tests beside it use mutants",
    ),
    Deferred(
        "tests/learn/test_mutants.py::test_every_verdict_that_a_stage_words_itself_",
        1,
        "adds up what the wrong brokers have reached",
    ),
    Deferred(
        "tests/learn/test_shipped_mutants.py::test_a_broker_that_does_an_option_wrong_",
        10,
        "two wrong brokers are judged",
        kept=("[an error that may pass is kept]", "[the oldest window comes first]"),
    ),
    Deferred(
        "tests/learn/test_killed.py::test_a_broker_that_forgets_is_found",
        15,
        "one broker that forgets is judged",
        kept=("[positions are forgotten]",),
    ),
    Deferred(
        "tests/learn/test_brokers.py::test_the_broker_of_the_tutorial_fails_what_it_leaves_out[S13.4",
        5,
        "the other checks that it fails are asked",
    ),
    Deferred(
        "tests/simulation/test_planted.py::test_every_",
        15,
        "one bug of each kind is planted",
        kept=("[a_wake_up_is_lost]", "[a_restart_forgets_producers]"),
    ),
    Deferred(
        "tests/simulation/test_recording.py::test_a_replay_",
        5,
        "one world is replayed",
        kept=("[7]",),
    ),
    Deferred(
        "tests/simulation/test_recording.py::test_being_recorded_changes_nothing",
        2,
        "a replay has the same bytes",
    ),
    Deferred(
        "tests/simulation/test_simulation.py::test_every_promise_is_kept[",
        11.0,
        "five worlds are lived, one of them with workers and a disk",
        kept=("[0]", "[1]", "[3]", "[6]", "[84]"),
    ),
    Deferred(
        "tests/simulation/test_simulation.py::test_every_promise_is_kept_over_tls",
        6.6,
        "one world is lived over TLS",
        kept=("[0]",),
    ),
    Deferred(
        "tests/core/test_planted_bugs.py::test_every_planted_bug_",
        8,
        "three bugs are planted",
        kept=("[lag_is_swallowed]", "[until_is_inclusive]", "[a_retry_is_stored_twice]"),
    ),
    Deferred(
        "tests/core/test_planted_bugs.py::test_every_slip_",
        15,
        "one slip is planted; test_planting.py finds the code of all",
        kept=("[the longest frame is refused]",),
    ),
    Deferred(
        "tests/core/test_durable_histories.py::",
        4,
        "one history of each kind is lived",
        kept=("[0-plain-for ever]", "[0-compacted-expiring]"),
    ),
    Deferred(
        "tests/base/test_escapes.py::test_",
        25.1,
        "characters where one category ends and another begins, and all that are exceptions",
        only="[all]",
    ),
    Deferred(
        "tests/test_benchmarks.py::test_",
        16.0,
        "the first of these scenarios is run",
        only="[all]",
    ),
    Deferred(
        "tests/simulation/test_simulation.py::test_a_seed_is_one_history_",
        21.8,
        "one world is lived in two processes",
        kept=("[4]",),
    ),
    Deferred(
        "tests/apps/demo/test_departures.py::test_nothing_is_missing",
        4.3,
        "a week is read; reading the year takes four seconds, and the next three need it",
    ),
    Deferred("tests/apps/demo/test_departures.py::test_the_year_ends_", 0.1, "as the one before"),
    Deferred("tests/apps/demo/test_departures.py::test_a_minute_has_", 0.6, "a week is sent"),
    Deferred("tests/apps/demo/test_departures.py::test_days_are_", 1.3, "a day is read"),
    Deferred(
        "tests/server/access/test_users.py::test_whatever_is_in_a_file_",
        4,
        "files that are cut off anywhere, and those that are wrong, have tests of their own",
    ),
    Deferred(
        "tests/test_examples.py::test_an_example_at_a_running_broker_",
        8,
        "each example is run at a broker of its own, and one at a running broker",
        kept=("[echo.py]",),
    ),
    Deferred(
        "tests/test_examples.py::test_an_example_at_a_broker_that_does_not_offer_",
        4,
        "one example is run at such a broker",
        kept=("[echo.py]",),
    ),
    Deferred(
        "tests/chaos/test_access.py::",
        15,
        "tests/server/access has the same limits, with a clock of its own",
    ),
    Deferred("tests/chaos/test_crowd.py::", 8, "tests/server/test_server.py has a smaller crowd"),
    Deferred("tests/chaos/test_hostile.py::", 8, "each attack has its test in tests/server"),
    Deferred(
        "tests/chaos/test_killed_clients.py::", 5, "tests/chaos/test_cuts.py cuts connections"
    ),
    Deferred(
        "tests/chaos/test_workforce.py::",
        5,
        "test_work_command.py starts the broker again; tests/client/work loses connections",
    ),
    Deferred(
        "tests/apps/web/test_page.py::test_",
        13.0,
        "two things are shown in a browser; what the page is told has tests without one",
        kept=("::test_a_published_message_is_in_the_strip", "::test_markup_in_names_"),
    ),
    Deferred(
        "tests/cli/test_streams.py::test_a_pipe_that_is_not_blocking_gets_everything",
        7.4,
        "one command writes to such a pipe; what writes to it knows no command",
        kept=("[subscribe TOPIC --count 3000-]",),
    ),
    Deferred(
        "tests/cli/test_streams.py::test_a_full_disk_is_one_sentence_",
        3.9,
        "two commands write to such a disk; what says so knows no command",
        kept=("[topics-]", "[--help-]"),
    ),
    Deferred(
        "tests/cli/test_cluster_command.py::test_however_a_node_ends_",
        5,
        "a node is killed, which is the hardest end",
        kept=("[9--9]",),
    ),
    Deferred(
        "tests/cli/test_cluster_command.py::test_a_broker_that_is_killed_is_back_",
        3,
        "tests/apps/cluster/test_hosting.py starts brokers again that are none",
    ),
    Deferred(
        "tests/cli/test_cluster_command.py::test_what_brokers_log_",
        3,
        "a node of a program of its own is started by the test before",
    ),
    Deferred(
        "tests/cli/test_cluster_command.py::test_a_log_that_nobody_reads_",
        4,
        "tests/cli/test_serve_command.py has a broker whose log nobody reads",
    ),
    Deferred(
        "tests/cli/test_cluster_command.py::test_options_can_be_in_a_file_",
        2,
        "what is wrong in a file is said without a broker",
    ),
    Deferred(
        "tests/cli/test_cluster_command.py::test_two_nodes_cannot_have_one_folder",
        3,
        "tests/apps/cluster/test_folder.py locks a folder",
    ),
    Deferred(
        "tests/test_makefile.py::test_an_environment_without_pip_",
        6.7,
        "installs pip; a new clone is set up by the first job of CI",
    ),
    Deferred(
        "tests/storage/test_writer.py::test_every_call_fails",
        3.5,
        "a disk that is full once, and one that is broken for ever",
        kept=("[full-once]", "[broken-for ever]"),
    ),
    Deferred(
        "tests/storage/test_writer.py::test_the_power_is_cut_in_every_call",
        1.4,
        "one life ends in each call",
        kept=("[0]",),
    ),
    Deferred(
        "tests/storage/test_crash_histories.py::",
        2.6,
        "four of eight histories are lived",
        kept=("[0-", "[1-"),
    ),
    Deferred(
        "tests/test_benchmarks.py::test_",
        7.9,
        "the tables are made of results that are there",
        only="[one]",
    ),
    Deferred(
        "tests/learn/test_server.py::test_the_check_of_goaway_",
        3.1,
        "a server that says none is found",
        only="-passed]",
    ),
    Deferred(
        "tests/learn/test_liars.py::test_a_lie_is_found_",
        2.5,
        "one lie is told",
        only="[S9.1]",
    ),
    Deferred(
        "tests/tutorial/test_shipped.py::test_a_planted_line_",
        2.7,
        "tests/tutorial/test_claims.py has two steps that fail",
    ),
    Deferred(
        "tests/cli/test_learn_tutorial.py::test_an_exercise_from_its_stub_",
        3.7,
        "stubs, hints and answers are judged in tests/tutorial/test_exercises.py",
    ),
    Deferred(
        "tests/cli/test_record_command.py::test_a_recorder_goes_on_when_the_broker_of_a_durable_",
        2.0,
        "tests/apps/recording has it without a program",
    ),
    Deferred(
        "tests/cli/test_login_command.py::test_what_is_no_line_",
        2.2,
        "two lines are refused; tests/client/test_logins.py has the others",
        kept=("[nonsense]", "[zaichiks://h:1]"),
    ),
    Deferred(
        "tests/fuzz/test_fuzz.py::test_it_shows_progress_",
        1.2,
        "tests/cli has the same bar",
    ),
    Deferred(
        "tests/fuzz/test_fuzz.py::test_the_command_tells_",
        1.6,
        "what it finds is tested without the command",
    ),
    Deferred(
        "tests/cli/test_dissect_command.py::test_no_hello_that_",
        13.9,
        "every thirteenth of these Hellos is explained",
        only="-all]",
    ),
    Deferred(
        "tests/cli/test_examples_of_help.py::",
        14.2,
        "each command has tests of its own",
    ),
    Deferred(
        "tests/cli/test_record_into_store.py::test_after_a_recorder_was_killed_",
        3.3,
        "tests/apps/recording/test_archive.py ends recorders everywhere, without a program",
    ),
    Deferred(
        "tests/cli/test_record_command.py::test_wherever_a_recorder_",
        2.5,
        "a recorder is killed after a rename, and in the test before in the middle of a file",
        kept=("[pathlib.Path-replace-after-40]",),
    ),
    Deferred(
        "tests/cli/test_record_command.py::test_a_lost_connection_is_told_above_the_bar",
        3.1,
        "the sentence is told without a bar, and the bar is shown in a test of its own",
    ),
    Deferred(
        "tests/cli/test_record_command.py::test_several_topics_are_followed_until_ctrl_c",
        1.5,
        "one topic is followed until Ctrl-C, and several are recorded in tests/apps/recording",
    ),
    Deferred(
        "tests/cli/test_wrong_usage.py::test_without_standard_output_",
        2.4,
        "two commands are started without one; what says so knows no command",
        kept=("[topics]", "[--help]"),
    ),
    Deferred(
        "tests/cli/test_with_login.py::test_a_topic_is_recorded_and_counted_",
        1.9,
        "the login of the environment is used; tests/client/test_logins.py has the others",
        kept=("[by_the_environment]",),
    ),
    Deferred(
        "tests/cli/test_web_command.py::test_with_a_log_for_programs_",
        2.8,
        "a page that is killed is told in the same log",
    ),
    Deferred(
        "tests/cli/test_learn_command.py::test_whatever_ends_learn_ends_the_server_too",
        4,
        "two signals are sent",
        kept=("[2-check]", "[15-watch]", "[SIGINT-check]", "[SIGTERM-watch]"),
    ),
    Deferred(
        "tests/cli/test_learn_command.py::test_an_answer_that_is_being_judged_ends_too",
        2,
        "signals are sent to `learn check`",
    ),
    Deferred(
        "tests/cli/test_learn_command.py::test_the_same_seed_may_be_run_again_",
        1,
        "a running broker is checked in the test before",
    ),
    Deferred(
        "tests/cli/test_learn_command.py::test_watch_",
        6,
        "watch is watched in four tests",
        kept=("_without_a_terminal_", "_when_a_file_has_changed", "_goes_on_only_", "_ends_with_"),
    ),
    Deferred(
        "tests/fuzz/test_fuzz.py::test_nothing_is_found",
        11.4,
        "a thousand inputs of each kind are tried",
        only="-5000]",
    ),
    Deferred(
        "tests/fuzz/test_fuzz.py::test_a_planted_bug_is_found[a_clock_",
        3.3,
        "the other nine bugs are planted, which take less time to find",
    ),
    Deferred(
        "tests/core/test_model.py::test_core_and_model_agree",
        3.8,
        "the first six of twelve runs are made",
        only="[6]",
    ),
    Deferred(
        "tests/core/report/test_explained_model.py::test_every_explanation_",
        2.7,
        "the first three of six runs are made",
        only="[3]",
    ),
    Deferred(
        "tests/core/report/test_explained_model.py::test_a_wrong_explanation_is_found",
        4.7,
        "two wrong explanations are planted, which take less time to find",
        only="[a_change_of_cause_is_overlooked]",
    ),
    Deferred(
        "tests/learn/test_liars.py::test_a_lie_is_found_where_it_is_told[S3.4",
        4.0,
        "the other lies are told, which take less time to find",
    ),
    Deferred(
        "tests/learn/test_liars.py::test_a_lie_is_found_where_it_is_told[S5.3",
        3.1,
        "as the one before",
    ),
    Deferred(
        "tests/learn/test_killed.py::test_the_project_s_broker_has_everything_",
        2.2,
        "tests/chaos/test_durable.py kills it, too",
    ),
    Deferred(
        "tests/learn/test_mutation.py::test_the_broker_is_right_where_its_mutant_is_wrong[go]",
        2.9,
        "the broker in Python is judged",
    ),
    Deferred(
        "tests/tutorial/test_shipped.py::test_a_planted_line_",
        4.1,
        "one line is planted",
        kept=("[S9.2]",),
    ),
    Deferred(
        "tests/apps/web/test_page.py::test_each_of_seven_windows_",
        1.9,
        "one window is live in each of the tests that stay",
    ),
    Deferred(
        "tests/apps/web/test_page.py::test_of_a_thousand_topics_",
        2.5,
        "lists are tested without a browser",
    ),
    Deferred(
        "tests/apps/web/test_page.py::test_a_strange_link_",
        0.7,
        "one of the links is followed",
        kept=("[/topic#a%E2%80%AEb",),
    ),
    Deferred(
        "tests/apps/web/test_page.py::test_what_matters_is_reached_by_the_tab_key_",
        0.3,
        "keys are pressed in the test before",
    ),
    Deferred(
        "tests/apps/web/test_page.py::test_on_a_phone_",
        0.7,
        "the same pages are opened in a large window",
    ),
    Deferred(
        "tests/apps/web/test_page.py::test_a_stage_ends_",
        0.3,
        "tests/apps/web has the same without a browser",
    ),
    Deferred(
        "tests/apps/web/test_page.py::test_what_became_of_the_last_message_",
        0.4,
        "tests/apps/web has the question without a browser",
    ),
    Deferred(
        "tests/apps/web/test_page.py::test_a_publisher_that_waits_",
        0.4,
        "a reader that stops is shown, and what a page says of a full topic is tested without one",
    ),
    Deferred(
        "tests/apps/statistics/test_page_in_browser.py::test_a_browser_draws_the_page",
        1.6,
        "the page is drawn in light colours",
        kept=("[light]",),
    ),
    Deferred(
        "tests/apps/statistics/test_page_in_browser.py::test_on_a_narrow_screen_",
        1.3,
        "the page is drawn on a wide one",
    ),
    Deferred(
        "tests/client/cluster/test_cluster.py::test_nothing_acknowledged_",
        3,
        "one history is lived on each event loop",
        kept=("-0]",),
    ),
    Deferred(
        "tests/apps/spark/test_writer.py::test_two_writes_within_one_micro_batch_",
        7,
        "what writes is tested without a session",
    ),
    Deferred(
        "tests/apps/spark/test_writer.py::test_spark_writes_",
        7,
        "as the one before",
    ),
    Deferred(
        "tests/apps/spark/test_writer.py::test_a_micro_batch_that_spark_repeats_",
        7,
        "as the one before; and a write that is repeated is, too",
    ),
    Deferred(
        "tests/apps/spark/test_demo.py",
        20,
        "Spark counts, reads, writes and streams in the tests of it that stay",
    ),
    Deferred(
        "tests/apps/spark/test_equality.py",
        20,
        "test_windows.py compares Spark with the oracle on the same days",
    ),
    Deferred(
        "tests/apps/web/topics/test_publishing.py::test_programs_that_retry_",
        5,
        "test_idempotency.py has what is done about a repeat, step by step",
    ),
    Deferred(
        "tests/apps/web/topics/test_event_source.py::test_it_resumes_",
        4,
        "test_reading.py goes on after any id, without a browser",
    ),
    Deferred(
        "tests/apps/mqtt/test_planted_gateway_slips.py::",
        4,
        "one of those that `make test-long` plants; that they can be planted is tested without",
    ),
    Deferred(
        "tests/cli/test_serve_beside.py::test_why_a_front_end_",
        2,
        "test_web_command.py has a page whose port is taken",
    ),
    Deferred(
        "tests/apps/spark/test_errors.py",
        10,
        "the same sentences are asserted of the source, without a session",
    ),
    Deferred(
        "tests/apps/spark/test_in_cluster.py::test_spark_reads_",
        10,
        "the same is read, written and streamed step by step without a session",
    ),
    Deferred(
        "tests/apps/spark/test_example.py",
        4,
        "an example of what test_windows.py computes",
    ),
    Deferred(
        "tests/apps/spark/test_holding.py::test_a_query_keeps_up_",
        10,
        "the same is tested step by step without a session",
    ),
    Deferred(
        "tests/apps/spark/test_live.py",
        12,
        "test_stream.py has a query that is killed and goes on",
    ),
    Deferred(
        "tests/apps/spark/test_notebook.py",
        6,
        "starts a notebook, to show what the documents show",
    ),
    Deferred(
        "tests/apps/spark/test_outcomes.py",
        10,
        "the account of the broker is tested without Spark in tests/apps/statistics",
    ),
    Deferred(
        "tests/apps/spark/test_recipes.py",
        10,
        "a recipe of the documents, with Delta",
    ),
    Deferred(
        "tests/apps/spark/test_statistics_document.py",
        6,
        "queries of a document; test_windows.py has the same numbers",
    ),
    Deferred(
        "tests/apps/spark/test_stats_command.py",
        20,
        "tests/cli/test_stats.py has the command, and counts without Spark",
    ),
)

_OF_FILE: dict[str, list[Deferred]] = {}
for _deferred in DEFERRED:
    _OF_FILE.setdefault(_deferred.tests.partition("::")[0], []).append(_deferred)


def reason(name: str, *, on_trio: bool) -> str:
    """Returns why a test is left to `make test-all`; nothing if it is not.

    `on_trio` is one that was repeated on trio. Tests that run on trio alone, because they use its
    clock, are no repetition.
    """
    _, _, test = name.partition("::")
    _, _, case = test.partition("[")
    if on_trio and not name.startswith(WAITING):
        return "waits for nothing, so its event loop makes no difference"
    if name.startswith(BLACK_BOX) and "TLS" in case and not test.startswith(OVER_TLS):
        return "TLS makes no difference to what a request means"
    path, _, _ = name.partition("::")
    for deferred in _OF_FILE.get(path, ()):
        if deferred.has(name):
            return deferred.why
    return ""
