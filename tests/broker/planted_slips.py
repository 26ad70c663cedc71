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
FUZZ = "fuzz/test_fuzz.py::test_nothing_is_found"
LIMITS = "broker/test_limits.py::test_a_limit_is_exact"
SLIPS = [
    Slip("not all bytes that expire are given back", f"{BROKER}/ring.py", "self.expired += offset - self.head\n",
         "self.expired += offset - self.head\n            self.budget.used += 1\n", "broker/test_budget.py"),
    Slip("the batch just published may go", f"{BROKER}/budget.py", "evict_oldest(leaving=1)", "evict_oldest(leaving=0)",
         "broker/test_budget.py"),
    Slip("the first topic pays instead of the largest", f"{BROKER}/budget.py",
         "0 if holder is publisher else holder.bytes", "holder is not publisher", "broker/test_budget.py"),
    Slip("who pays is looked for each time", f"{BROKER}/budget.py", "payer, payer.bytes // 2", "payer, payer.bytes",
         "broker/test_budget.py"),
    Slip("others go on holding what was set aside", f"{BROKER}/budget.py",
         "        self.relieve(holder)\n", "", "broker/test_overflow.py"),
    Slip("dead entries pile up", f"{BROKER}/ring.py", "self._first * 2 > len(self._entries)", "not self.head",
         "broker/test_ring.py"),
    Slip("a journal takes no topic's place", f"{BROKER}/topic_registry.py", "2 if settings.journal_bytes else 1", "1",
         LIMITS),
    Slip("the winner is the first message of the key", f"{BROKER}/journal.py", "winners[key] = offset\n",
         "winners.setdefault(key, offset)\n", "broker/test_journal.py"),
    Slip("a refused batch is told of in the journal", f"{BROKER}/journal.py", "offset += 1", "offset += 0",
         "broker/test_journal.py"),
    Slip("bytes give a frame more time", f"{BROKER}/deadlines.py", "if frames != self._frames or not buffered:",
         "if (frames, buffered) != (self._frames, self._buffered) or not buffered:", "broker/test_deadlines.py"),
    Slip("time in which the broker stood still counts", f"{BROKER}/deadlines.py",
         "min(now_us - self._looked_us, _LONGEST_STEP_US)", "now_us - self._looked_us", "broker/test_deadlines.py"),
    Slip("who is overdue once is cut off", f"{BROKER}/deadlines.py", "return refusal if was_overdue else None",
         "return refusal", "broker/test_deadlines.py"),
    Slip("replies pile up", f"{BROKER}/connection.py", " and manager.reply_bytes <= max_replies:", ":",
         LIMITS),
    Slip("what comes after a Close is carried out", f"{BROKER}/subscription_manager.py",
         "        if self.closing:\n            return\n        try:", "        try:",
         "broker/test_subscription_manager.py"),
    Slip("65 answers are kept", f"{BROKER}/producers.py", "REMEMBERED = 64", "REMEMBERED = 65", LIMITS),
    Slip("a remembered refusal holds its batch", f"{BROKER}/producers.py", "known.answers.append(_again(refusal))",
         "known.answers.append(refusal)", "broker/test_producers.py"),
    Slip("pages repeat their last name", f"{BROKER}/describe.py", "name > request.after", "name >= request.after",
         "broker/test_describe.py"),
    Slip("a fatal error is forgotten", f"{PROTOCOL}/codec.py", "self._fatal = error\n", "pass\n", FUZZ),
    Slip("the longest frame is refused", f"{PROTOCOL}/codec.py", "if length > self._max_frame:",
         "if length >= self._max_frame:", LIMITS),
    Slip("a twin takes a header that is wrong", f"{PROTOCOL}/codec.py", "and not flags and not zero and",
         "and not flags and", FUZZ),
    Slip("offsets may begin anywhere", f"{PROTOCOL}/batch.py", "offsets[0] != 0 or sorted", "sorted", FUZZ),
    Slip("a piece has its neighbour's payloads", f"{PROTOCOL}/batch.py", "(self.count + 1 + start) * _OFFSET_SIZE",
         "(self.count + start) * _OFFSET_SIZE", "protocol/test_batch.py"),
]  # fmt: skip
