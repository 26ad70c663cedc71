"""docs/run/reliability.md tells of every error that there is, and of none that there is not."""

import re
from pathlib import Path

from zaichik_protocol import EndCode, ErrorCode

PAGE = (Path(__file__).parent.parent / "docs" / "run" / "reliability.md").read_text(
    encoding="utf-8"
)
REASONS = {"GONE", "RESET", "TURNED_AWAY"}  # ends that are nobody's error


def test_every_error_is_told_and_exists():
    named = set(re.findall(r"`([A-Z][A-Z_]+)`", PAGE))
    ends = {code.name for code in EndCode} - {code.name for code in ErrorCode}
    assert named - REASONS - ends == {code.name for code in ErrorCode}
