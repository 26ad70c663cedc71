"""Bugs in what the model does not see: bytes, time, what is kept although it is not needed.

Each has a test of its own to find it. A slip is made in a copy of the packages; `planting` says how
its place and its code are written.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass

from planting import ROOT, planted


@dataclass(frozen=True)
class Slip:
    """A wrong line.

    Attributes:
        name: what is wrong.
        where: the definition that has it, in the broker or the protocol.
        right: what stands there, an expression or statements; `wrong` stands there instead.
        test: file and name of the test that finds it.
        nth: which one, counted from 1, if what is right is there several times.
    """

    name: str
    where: str
    right: str
    wrong: str
    test: str
    nth: int = 0

    def planted(self):
        """The file that has the slip, and its text with it."""
        return planted(self.where, self.right, self.wrong, self.nth)

    def find(self, folder):
        """What that test's exit code and output are, with this slip in a copy of the packages."""
        not_copied = shutil.ignore_patterns("__pycache__")
        for package in ("zaichik", "protocol"):
            shutil.copytree(ROOT / package, folder / package, ignore=not_copied)
        path, text = self.planted()
        (folder / path.relative_to(ROOT)).write_text(text, encoding="utf-8")
        # What the copy covers is nobody's coverage.
        env = {name: it for name, it in os.environ.items() if not name.startswith("COVERAGE_")}
        # Python looks into the working folder first, then into PYTHONPATH: so the copy wins over
        # what is installed.
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        command += ["--rootdir", ROOT, "-c", ROOT / "pyproject.toml", ROOT / "tests" / self.test]
        # What is left out of `make test` may be what catches it.
        command += ["-m", "not long and not cluster and not soak and not full"]
        result = subprocess.run(
            command,
            cwd=folder,
            env=env | {"PYTHONPATH": f"{folder}{os.pathsep}{folder / 'protocol'}"},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        return result.returncode, result.stdout


FUZZ = "fuzz/test_fuzz.py::test_nothing_is_found"
LIMITS = "core/test_limits.py::test_a_limit_is_exact"
TURNS = "server/test_connection.py"
SLIPS = [
    Slip(
        "not all bytes that expire are given back",
        "Ringed.expire",
        "ring.head == before",
        "ring.head <= before + 1",
        "core/sharing/test_budget.py",
    ),
    Slip(
        "the batch just published may go",
        "Budget.evict_over_limit",
        "int(holder is publisher)",
        "0",
        "core/sharing/test_budget.py",
    ),
    Slip(
        "the first topic loses instead of the one that holds most",
        "Budget._loser",
        "max(able, key=lambda holder: holder.unreserved, default=None)",
        "next(iter(able), None)",
        "core/sharing/test_budget.py",
    ),
    Slip(
        "who publishes loses first",
        "Budget._loser",
        "lambda holder: holder.unreserved",
        "lambda holder: (holder is publisher, holder.unreserved)",
        "core/sharing/test_budget.py",
    ),
    Slip(
        "the topic that loses is looked for each time",
        "Budget._loser",
        "largest.unreserved // 2",
        "largest.unreserved",
        "core/sharing/test_budget.py",
    ),
    Slip(
        "others go on holding what is reserved",
        "Budget.reserve",
        "self.evict_over_limit(None)",
        "pass",
        "core/test_overflow.py",
    ),
    Slip(
        "reserved bytes are taken",
        "TopicController._can_evict_batch",
        "not self.retained.reserved and self.retained.batches > leaving",
        "self.retained.batches > leaving",
        "core/sharing/test_budget.py",
    ),
    Slip(
        "windows are not counted",
        "TopicController._account",
        """
        memory += keys
        if self.observer is not None:
            memory += keys
        """,
        """
        if self.observer is not None:
            memory += 2 * keys
        """,
        "core/sharing/test_budget.py",
    ),
    Slip(
        "memory is not given back on deletion",
        "TopicController.delete",
        "self.budget.used -= self.unreserved",
        "pass",
        "core/sharing/test_budget.py",
    ),
    Slip(
        "what was reserved is not given back on deletion",
        "TopicController.delete",
        "self.budget.give_back(self.retained.reserved)",
        "pass",
        "core/sharing/test_budget.py",
    ),
    Slip(
        "a quota does not ask whose it is",
        "Quota.has_room",
        "held <= self._share(left)",
        "left >= 0",
        "core/sharing/test_quota.py",
    ),
    Slip(
        "a client is over its share when it has filled it",
        "Quota._share",
        "left + 1",
        "left + (left > 2)",
        "core/sharing/test_quota.py",
    ),
    Slip(
        "what answers hold is not counted",
        "Producers.remember",
        "self._memory.take(known.client, grown)",
        "pass",
        "core/test_producers.py",
    ),
    Slip(
        "joined frames are settled early",
        "Reader._join_frames",
        """
        end = next_end
        count += next_count
        size += next_size
        """,
        """
        end = next_end
        self.in_flight_bytes -= next_size
        """,
        "core/test_reader.py",
    ),
    Slip(
        "frames are joined over a gap without need",
        "Reader._join_frames",
        "end == next_first or over_gaps",
        "True",
        "core/test_reader.py",
    ),
    Slip(
        "frames with lag between them are not bounded",
        "Reader._send",
        "self._join_frames(over_gaps=True)",
        "self._join_frames(over_gaps=False)",
        "core/test_reader.py",
    ),
    Slip(
        "a joined frame with a gap is settled in part",
        "Reader.commit",
        "count == end - first",
        "True",
        "core/test_reader.py",
    ),
    Slip(
        "a small credit decodes a whole batch",
        "Batch.fitting",
        "bisect_right(range(start + 1, stop + 1), limit, key=self._before)",
        "sum(self._before(index) <= limit for index in range(start + 1, stop + 1))",
        "core/test_reader.py",
    ),
    Slip(
        "a journal keeps its size",
        "TopicRegistry._give_journal",
        "journal.resize()",
        "pass",
        "core/test_journal.py",
    ),
    Slip(
        "a journal stays though none is asked for",
        "TopicRegistry._give_journal",
        "self._drop_journal(topic)",
        "pass",
        "core/test_journal.py",
    ),
    Slip(
        "winners outlive their windows",
        "TopicRegistry.sweep",
        "journal.forget_closed()",
        "pass",
        "core/test_journal.py",
    ),
    Slip(
        "dead entries pile up",
        "BroadcastRing._drop_below",
        "first * 2 > len(batches)",
        "not self.head",
        "core/test_ring.py",
    ),
    Slip(
        "a journal takes no topic's place",
        "TopicRegistry._add",
        """
        if settings.journal_bytes:
            topics += 1
        """,
        "pass",
        LIMITS,
    ),
    Slip(
        "the winner is the first message of the key",
        "Journal.write",
        "winners[key] = offset",
        "winners.setdefault(key, offset)",
        "core/test_journal.py",
    ),
    Slip(
        "a refused batch is told of in the journal",
        "Journal.write",
        "offset += 1",
        "offset += 0",
        "core/test_journal.py",
    ),
    Slip(
        "bytes give a frame more time",
        "Deadlines.check",
        "frames != self._frames",
        "(frames, buffered) != (self._frames, self._buffered)",
        "server/test_deadlines.py",
    ),
    Slip(
        "time in which the broker stood still counts",
        "Deadlines.advance",
        "min(now_us - self._checked_us, _LONGEST_STEP_US)",
        "now_us - self._checked_us",
        "server/test_deadlines.py",
    ),
    Slip(
        "who is overdue once is cut off",
        "Deadlines.check",
        "if not was_overdue:\n    return None",
        "pass",
        "server/test_deadlines.py",
    ),
    Slip(
        "a socket is stuck from the last check before it filled",
        "Deadlines.is_stuck",
        "is_full and self._was_full",
        "is_full",
        "server/test_deadlines.py",
    ),
    Slip(
        "time in which nothing is read counts",
        "Deadlines.excuse",
        "self._begun_us += self._step_us",
        "pass",
        "server/test_deadlines.py",
    ),
    Slip(
        "replies pile up",
        "Replies.is_backed_up",
        "self.bytes > most or self._owed_bytes > MOST_OWED",
        "self._owed_bytes > MOST_OWED",
        LIMITS,
    ),
    Slip(
        "a turn ends when all is applied",
        "Connection._read",
        "self._frames >= last or watch_us > last_us",
        "watch_us > last_us",
        TURNS,
    ),
    Slip(
        "a turn may take any time",
        "Connection._read",
        "self._frames >= last or watch_us > last_us",
        "self._frames >= last",
        TURNS,
    ),
    Slip(
        "a turn of deliveries has no end",
        "SubscriptionManager.next_output",
        "range(MESSAGES_A_TURN)",
        "range(2**60)",
        TURNS,
    ),
    Slip(
        "what waits for a turn is too late",
        "Connection.check_deadlines",
        "not self._wants_input or (self._may_have_input and self._may_receive)",
        "not self._wants_input",
        TURNS,
    ),
    Slip(
        "a peer that has gone keeps its replies",
        "Connection._lose",
        "self._manager.drop_replies()",
        "pass",
        TURNS,
    ),
    Slip(
        "a Close does not wait for replies that are not known yet",
        "Connection._is_over",
        "self._manager.is_finished and not self._unsent",
        "self._manager.closing and not self._unsent",
        TURNS,
    ),
    Slip(
        "what a stuck peer has not read stays with the system",
        "Connection.check_deadlines",
        "self._stream.reset()",
        "pass",
        TURNS,
    ),
    Slip(
        "a reset after the last word is the reason",
        "Connection._end_input",
        "not isinstance(error, anyio.EndOfStream) and not self._is_over",
        "not isinstance(error, anyio.EndOfStream)",
        TURNS,
    ),
    Slip(
        "any number of connections may be refused at once",
        "Server._serve_one",
        "len(self.broker.managers) - len(self._connections) >= self._most_refused",
        "False and len(self.broker.managers) - len(self._connections) >= self._most_refused",
        "server/test_server.py",
    ),
    Slip(
        "a connection that was accepted last is not told of the end",
        "Server._serve_one",
        "self._stopping.is_set()",
        "False",
        "server/test_server.py",
    ),
    Slip(
        "a goodbye comes before what is to be delivered",
        "SubscriptionManager.next_output",
        "self._may_say_goodbye and not self.ready",
        "self._may_say_goodbye",
        TURNS,
    ),
    Slip(
        "what is acknowledged while the broker stops is delivered to nobody",
        "Server._accept_and_drain",
        "connection.finish_requests(until_us)",
        """
        connection.finish_requests(until_us)
        with self.bugs.contained("the goodbye of a connection"):
            connection.go_away()
        """,
        "server/test_durable.py",
    ),
    Slip(
        "who has not logged in when the broker stops is heard all the same",
        "Connection.finish_requests",
        "not self._manager.greeted",
        "False",
        "server/test_gate.py",
    ),
    Slip(
        "what is charged to a client that waits is forgotten",
        "FairQueue.take",
        "return flow",
        """
        flow.finish = self.virtual
        return flow
        """,
        "core/sharing/test_scheduler.py",
    ),
    Slip(
        "a client waits for another turn before it has paid for this one",
        "Scheduler._wait",
        "not client.is_waiting and (current is None or current.client is not client)",
        "not client.is_waiting",
        "core/sharing/test_scheduler.py",
    ),
    Slip(
        "a new connection is ahead of the others of its client",
        "Scheduler.ask",
        "client.queue.pass_by(turns)",
        "pass",
        "core/sharing/test_scheduler.py",
    ),
    Slip(
        "idle time is given in advance",
        "FairQueue.idle",
        "min(self.virtual + elapsed_us, self.latest)",
        "self.virtual + elapsed_us",
        "core/sharing/test_scheduler.py",
    ),
    Slip(
        "one that is alone hurries as often as it likes",
        "Scheduler.ask",
        "self._hurried_us += after_us - before_us",
        "pass",
        "core/sharing/test_scheduler.py",
    ),
    Slip(
        "what a disk answers hurries as often as it likes",
        "Scheduler._hurry",
        "self._hurried_us += self._time_us() - before_us",
        "pass",
        "core/sharing/test_scheduler.py",
    ),
    Slip(
        "what a disk answers is ahead of those that wait",
        "Scheduler.between_turns",
        "gives_slice and is_alone",
        "gives_slice",
        "core/sharing/test_scheduler.py",
    ),
    Slip(
        "one socket that is reported shows that all were polled",
        "Scheduler.ask",
        "turns.poll == self._poll",
        "True",
        "core/sharing/test_scheduler.py",
    ),
    Slip(
        "a Hello that waits is not read",
        "greet",
        "decoder.receive_data(late)",
        "pass",
        "server/test_greeting.py",
    ),
    Slip(
        "a turn of the event loop is not left out",
        "Repeating._wait_a_turn",
        "self._loop.call_soon(self._call)",
        "self._call()",
        "net/test_repeating.py",
    ),
    Slip(
        "what comes after a Close is carried out",
        "SubscriptionManager.apply",
        """
        if not self.is_open:
            return
        """,
        "pass",
        "core/test_subscription_manager.py",
    ),
    Slip(
        "65 answers are kept",
        "REMEMBERED_ANSWERS",
        "REMEMBERED_ANSWERS = 64",
        "REMEMBERED_ANSWERS = 65",
        LIMITS,
    ),
    Slip(
        "a remembered refusal holds its batch",
        "Producers.remember",
        "_again(outcome)",
        "outcome",
        "core/test_producers.py",
    ),
    Slip(
        "pages repeat their last name",
        "Directory.after",
        "bisect_right(names, name)",
        "bisect_left(names, name)",
        "core/test_directory.py",
    ),
    Slip(
        "a page looks at all that follow",
        "describe:_page",
        "islice(found, limit + 1)",
        "found",
        "core/report/test_describe.py",
    ),
    Slip(
        "a fatal error is forgotten",
        "FrameDecoder._kept",
        "self._fatal = error",
        "pass",
        FUZZ,
    ),
    Slip(
        "the longest frame is refused",
        "FrameDecoder.next_frame",
        "MIN_LENGTH <= length <= self._max_frame",
        "MIN_LENGTH <= length < self._max_frame",
        LIMITS,
    ),
    Slip(
        "a header that is wrong is taken",
        "FrameDecoder.next_frame",
        "form is None or zero",
        "form is None",
        FUZZ,
    ),
    Slip(
        "offsets may begin anywhere",
        "_checked_end",
        "offsets[0] != 0 or sorted(offsets) != list(offsets)",
        "sorted(offsets) != list(offsets)",
        FUZZ,
    ),
    Slip(
        "a piece has its neighbour's payloads",
        "Batch.cut",
        "self.count + 1",
        "self.count",
        "protocol/test_batch.py",
    ),
]
