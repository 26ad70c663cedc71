"""What the records of a file change besides messages, folded: positions, and shared names.

Each has one record at the end of the new file; two if a shared name has gone, which may have been
made again. A start needs them only if no checkpoint is left: then it reads the whole log, and finds
the same as before the file was rewritten.
"""

import json
from collections.abc import Iterator

from zaichik.core.shared_names.saved_names import FoldedChanges
from zaichik.storage.record import RecordKind, StoredRecord


class Changes:
    """See above.

    Args:
        is_first: whether the log has nothing before them. Then what has gone leaves no trace.
    """

    def __init__(self, *, is_first: bool) -> None:
        self._is_first = is_first
        self._positions: dict[str, int | None] = {}
        self._names = FoldedChanges(is_first=is_first)
        self._ticket = 0

    def add(self, record: StoredRecord) -> None:
        """Add what the next record changes, if anything."""
        if record.kind == RecordKind.POSITIONS:
            self._add_positions(json.loads(record.body))
        elif record.kind == RecordKind.NAMES:
            saved = json.loads(record.body)
            self._ticket = max(self._ticket, saved["ticket"])
            self._names.add(saved["names"])

    def _add_positions(self, moved: dict[str, int | None]) -> None:
        for name, committed in moved.items():
            # The one that has moved last comes last.
            self._positions.pop(name, None)
            if committed is not None or not self._is_first:
                self._positions[name] = committed

    def records(self, base: int, accepted_us: int) -> Iterator[StoredRecord]:
        """Returns the records of all that has changed, to be written at that offset."""
        if self._positions:
            body = json.dumps(self._positions).encode()
            yield StoredRecord(base, accepted_us, 0, body, RecordKind.POSITIONS)
        for changes in self._names.changes():
            body = json.dumps({"ticket": self._ticket, "names": changes}).encode()
            yield StoredRecord(base, accepted_us, 0, body, RecordKind.NAMES)
