"""Bugs in what the model does not see: bytes, time, what is kept for nobody. Each has a test of its own to find it.

A slip is text of a file of the broker or the protocol, and what stands there instead. It is made in a copy.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Slip:
    """A wrong line.

    Attributes:
        name: what is wrong.
        file: where, in the broker or the protocol.
        right, wrong: what stands there, exactly once, and what instead.
        test: file and name of the test that finds it.
    """

    name: str
    file: str
    right: str
    wrong: str
    test: str

    def find(self, folder):
        """What pytest's exit code and output are for that test, with this slip in a copy of the packages."""
        for package in ("zaichik", "protocol"):
            shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
        path = folder / self.file
        text = path.read_text(encoding="utf-8")
        assert text.count(self.right) == 1, f"{self.file} has {text.count(self.right)} times: {self.right}"
        path.write_text(text.replace(self.right, self.wrong), encoding="utf-8")
        # What the copy covers is nobody's coverage.
        env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
        # Python looks into the working folder first, then into PYTHONPATH: the copy wins over what is installed.
        result = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--rootdir", ROOT, "-c",
             ROOT / "pyproject.toml", ROOT / "tests" / self.test],
            cwd=folder,
            env=env | {"PYTHONPATH": f"{folder}{os.pathsep}{folder / 'protocol'}"},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )  # fmt: skip
        return result.returncode, result.stdout


BROKER, PROTOCOL = "zaichik/broker", "protocol/zaichik_protocol"
SERVING, SHARING, OBSERVING = "zaichik/serving", "zaichik/sharing", "zaichik/observing"
FUZZ = "fuzz/test_fuzz.py::test_nothing_is_found"
LIMITS = "broker/test_limits.py::test_a_limit_is_exact"
TURNS = "serving/test_connection.py"
SLIPS = [
    Slip("not all bytes that expire are given back", f"{BROKER}/topic_controller.py",
         "if self.ring.head != before:", "if self.ring.head != before + 1:", "sharing/test_budget.py"),
    Slip("the batch just published may go", f"{SHARING}/budget.py",
         "holder.evict_oldest(leaving=int(holder is publisher))", "holder.evict_oldest(leaving=0)",
         "sharing/test_budget.py"),
    Slip("the first topic loses instead of the one that holds most", f"{SHARING}/budget.py",
         "max(able, key=lambda holder: holder.unreserved, default=None)", "next(iter(able), None)",
         "sharing/test_budget.py"),
    Slip("who publishes loses first", f"{SHARING}/budget.py", "key=lambda holder: holder.unreserved,",
         "key=lambda holder: (holder is publisher, holder.unreserved),", "sharing/test_budget.py"),
    Slip("the topic that loses is looked for each time", f"{SHARING}/budget.py", "else largest.unreserved // 2",
         "else largest.unreserved", "sharing/test_budget.py"),
    Slip("others go on holding what is reserved", f"{SHARING}/budget.py", "        self.evict_over_limit(None)\n", "",
         "broker/test_overflow.py"),
    Slip("reserved bytes are taken", f"{BROKER}/topic_controller.py",
         "not self._reserved and self.ring.batches > leaving", "self.ring.batches > leaving", "sharing/test_budget.py"),
    Slip("windows are not counted", f"{BROKER}/topic_controller.py", "memory += keys if", "memory += 0 if",
         "sharing/test_budget.py"),
    Slip("memory is not given back on deletion", f"{BROKER}/topic_controller.py",
         "        self.budget.used -= self.unreserved\n", "", "sharing/test_budget.py"),
    Slip("what was reserved is not given back on deletion", f"{BROKER}/topic_controller.py",
         "        self.budget.give_back(self._reserved)\n", "", "sharing/test_budget.py"),
    Slip("a quota does not ask whose it is", f"{SHARING}/quota.py",
         "return self._held.get(client, 0) + amount <= self._share(self.limit - self.used - amount)",
         "return amount <= self.limit - self.used", "sharing/test_quota.py"),
    Slip("a client is over its share when it has filled it", f"{SHARING}/quota.py", "SHARE * max(left + 1, 0)",
         "SHARE * max(left + (left > 2), 0)", "sharing/test_quota.py"),
    Slip("what answers hold is not counted", f"{BROKER}/producers.py", "self._memory.take(known.client, grown)", "pass",
         "broker/test_producers.py"),
    Slip("joined frames are settled early", f"{BROKER}/reader.py",
         "end, count, size = next_end, count + next_count, size + next_size",
         "end, self.in_flight_bytes = next_end, self.in_flight_bytes - next_size", "broker/test_reader.py"),
    Slip("frames are joined over a gap without need", f"{BROKER}/reader.py", "if end == next_first or over_gaps:",
         "if True:", "broker/test_reader.py"),
    Slip("frames with lag between them are not bounded", f"{BROKER}/reader.py",
         "over_gaps=True", "over_gaps=False", "broker/test_reader.py"),
    Slip("a joined frame with a gap is settled in part", f"{BROKER}/reader.py",
         "if count == end - first:  # no gap", "if True:", "broker/test_reader.py"),
    Slip("a small credit decodes a whole batch", f"{PROTOCOL}/batch.py",
         "bisect_right(range(start + 1, stop + 1), limit, key=self._before)",
         "sum(self._before(index) <= limit for index in range(start + 1, stop + 1))", "broker/test_reader.py"),
    Slip("a journal keeps its size", f"{BROKER}/topic_registry.py", "journal.resize()", "pass",
         "broker/test_journal.py"),
    Slip("a journal stays though none is asked for", f"{BROKER}/topic_registry.py",
         "self._drop_journal(topic)\n        elif", "pass\n        elif", "broker/test_journal.py"),
    Slip("winners outlive their windows", f"{BROKER}/topic_registry.py", "journal.forget_closed()", "pass",
         "broker/test_journal.py"),
    Slip("dead entries pile up", f"{BROKER}/ring.py", "first * 2 > len(batches)", "not self.head",
         "broker/test_ring.py"),
    Slip("a journal takes no topic's place", f"{BROKER}/topic_registry.py", "2 if settings.journal_bytes else 1", "1",
         LIMITS),
    Slip("the winner is the first message of the key", f"{BROKER}/journal.py", "winners[key] = offset\n",
         "winners.setdefault(key, offset)\n", "broker/test_journal.py"),
    Slip("a refused batch is told of in the journal", f"{BROKER}/journal.py", "offset += 1", "offset += 0",
         "broker/test_journal.py"),
    Slip("bytes give a frame more time", f"{SERVING}/deadlines.py", "if frames != self._frames or not buffered:",
         "if (frames, buffered) != (self._frames, self._buffered) or not buffered:", "serving/test_deadlines.py"),
    Slip("time in which the broker stood still counts", f"{SERVING}/deadlines.py",
         "min(now_us - self._checked_us, _LONGEST_STEP_US)", "now_us - self._checked_us", "serving/test_deadlines.py"),
    Slip("who is overdue once is cut off", f"{SERVING}/deadlines.py", "return refusal if was_overdue else None",
         "return refusal", "serving/test_deadlines.py"),
    Slip("a socket is stuck from the last check before it filled", f"{SERVING}/deadlines.py",
         "not (is_full and self._was_full)", "not is_full", "serving/test_deadlines.py"),
    Slip("time in which nothing is read counts", f"{SERVING}/deadlines.py", "self._begun_us += self._step_us", "pass",
         "serving/test_deadlines.py"),
    Slip("replies pile up", f"{BROKER}/replies.py", "self.bytes > most or",
         "", LIMITS),
    Slip("a turn ends when all is applied", f"{SERVING}/connection.py", "self._frames < last and ", "", TURNS),
    Slip("a turn may take any time", f"{SERVING}/connection.py",
         " and (now_us if watch is clock else watch.now_us()) <= last_us and", " and", TURNS),
    Slip("a turn of deliveries has no end", f"{BROKER}/subscription_manager.py", "range(MESSAGES_A_TURN)",
         "range(2**60)", TURNS),
    Slip("what waits for a turn is too late", f"{SERVING}/connection.py",
         "not self._wants_input or (self._is_behind and self._may_receive):", "not self._wants_input:", TURNS),
    Slip("a peer that has gone keeps its replies", f"{SERVING}/connection.py",
         "self._manager.drop_replies()  # requests", "pass  # requests", TURNS),
    Slip("a Close does not wait for replies that are not known yet", f"{SERVING}/connection.py",
         "self._manager.is_finished", "self._manager.closing", TURNS),
    Slip("what a stuck peer has not read stays with the system", f"{SERVING}/connection.py",
         "            self._stream.reset()\n", "", TURNS),
    Slip("a reset after the last word is the reason", f"{SERVING}/connection.py", " and not self._is_over:  # or else",
         ":  # or else", TURNS),
    Slip("any number of connections may be refused at once", f"{SERVING}/server.py",
         "is_crowded = ", "is_crowded = False and ", "serving/test_server.py"),
    Slip("a connection that was accepted last is not told of the end", f"{SERVING}/server.py",
         "if self._stopping.is_set():", "if False:", "serving/test_server.py"),
    Slip("a goodbye comes before what is to be delivered", f"{BROKER}/subscription_manager.py",
         "self._may_say_goodbye and not self.ready:",
         "self._may_say_goodbye:", TURNS),
    Slip("what is acknowledged while the broker stops is delivered to nobody", f"{SERVING}/server.py",
         "                connection.finish_requests(until_us)\n",
         "                connection.finish_requests(until_us)\n                connection.go_away()\n",
         "serving/test_server.py"),
    Slip("what is charged to a client that waits is forgotten", f"{SHARING}/scheduler.py",
         "        flow.is_waiting = False\n        return flow",
         "        flow.is_waiting = False\n        flow.finish = self.virtual\n        return flow",
         "sharing/test_scheduler.py"),
    Slip("a client waits for another turn before it has paid for this one", f"{SHARING}/scheduler.py",
         " and (current is None or current.client is not client):", ":", "sharing/test_scheduler.py"),
    Slip("a new connection is ahead of the others of its client", f"{SHARING}/scheduler.py",
         "            client.queue.pass_by(turns)\n", "", "sharing/test_scheduler.py"),
    Slip("idle time is given in advance", f"{SHARING}/scheduler.py",
         "min(self.virtual + elapsed_us, self.latest)", "self.virtual + elapsed_us", "sharing/test_scheduler.py"),
    Slip("one that is alone hurries as often as it likes", f"{SHARING}/scheduler.py",
         "self._hurried_us += after_us - before_us", "pass", "sharing/test_scheduler.py"),
    Slip("one socket that is reported shows that all were polled", f"{SHARING}/scheduler.py",
         "if turns.poll == self._poll:", "if True:", "sharing/test_scheduler.py"),
    Slip("a Hello that waits is not read", f"{SERVING}/greeting.py",
         "decoder.receive_data(stream.receive_nowait())", "pass", "serving/test_greeting.py"),
    Slip("a turn of the event loop is not left out", "zaichik/net/repeating.py", "self._loop.call_soon(self._call)",
         "self._call()", "net/test_repeating.py"),
    Slip("what comes after a Close is carried out", f"{BROKER}/subscription_manager.py",
         "        if not self.is_open:\n            return\n        self.requests", "        self.requests",
         "broker/test_subscription_manager.py"),
    Slip("65 answers are kept", f"{BROKER}/producers.py", "REMEMBERED = 64", "REMEMBERED = 65", LIMITS),
    Slip("a remembered refusal holds its batch", f"{BROKER}/producers.py", "self._remember(known, _again(refusal))",
         "self._remember(known, refusal)", "broker/test_producers.py"),
    Slip("pages repeat their last name", f"{OBSERVING}/directory.py", "max(bisect_right(names, name)",
         "max(bisect_left(names, name)", "observing/test_directory.py"),
    Slip("a page looks at all that follow", f"{OBSERVING}/describe.py", "list(islice(found, limit + 1))", "list(found)",
         "observing/test_describe.py"),
    Slip("a fatal error is forgotten", f"{PROTOCOL}/codec.py", "self._fatal = error\n", "pass\n", FUZZ),
    Slip("the longest frame is refused", f"{PROTOCOL}/codec.py", "if length > self._max_frame:",
         "if length >= self._max_frame:", LIMITS),
    Slip("a twin takes a header that is wrong", f"{PROTOCOL}/codec.py", "cls is None or zero", "cls is None", FUZZ),
    Slip("offsets may begin anywhere", f"{PROTOCOL}/batch.py", "offsets[0] != 0 or sorted", "sorted", FUZZ),
    Slip("a piece has its neighbour's payloads", f"{PROTOCOL}/batch.py", "(self.count + 1 + start) * _OFFSET_SIZE",
         "(self.count + start) * _OFFSET_SIZE", "protocol/test_batch.py"),
]  # fmt: skip
