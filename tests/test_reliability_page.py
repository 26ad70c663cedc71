"""docs/reliability.md tells of every error that there is, and of none that there is not."""

import re
from pathlib import Path

from zaichik_protocol import EndCode, ErrorCode

PAGE = (Path(__file__).parent.parent / "docs" / "reliability.md").read_text(encoding="utf-8")
LATER = {"AUTH_FAILED", "FORBIDDEN"}  # of access control, which this broker does not have yet
REASONS = {"GONE", "RESET", "TURNED_AWAY"}  # ends that are nobody's error


def test_every_error_is_told_and_exists():
    named = set(re.findall(r"`([A-Z][A-Z_]+)`", PAGE))
    ends = {code.name for code in EndCode} - {code.name for code in ErrorCode}
    assert named - REASONS - ends == {code.name for code in ErrorCode} - LATER


def test_the_broker_does_not_use_the_errors_that_are_left_out():
    broker = Path(__file__).parent.parent / "zaichik" / "broker"
    used = {
        name for path in broker.glob("*.py") for name in re.findall(r"ErrorCode\.([A-Z_]+)", path.read_text("utf-8"))
    }
    assert used.isdisjoint(LATER)
