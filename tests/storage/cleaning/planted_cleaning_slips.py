"""Bugs in durable tables, which the tests of this folder find.

They are slips as those of `planted_table_slips`: each replaces one method of the running program.
"""

from planted_table_slips import TableSlip

CLEANING_SLIPS = [
    TableSlip(
        "the files that were replaced are not known to be left over",
        "left_over",
        "begins = max(begins, found[0].until)",
        "pass",
    ),
    TableSlip(
        "holes at the end of a file are not covered",
        "Rewriting._finish",
        "self._cover(self.new.until)",
        "self._flush()",
    ),
    TableSlip(
        "positions in a file are lost with it",
        "Rewriting._add",
        "self._changes.add(record)",
        "pass",
    ),
    TableSlip(
        "shared names in a file are lost with it",
        "Changes.add",
        'self._names.add(saved["names"])',
        "pass",
    ),
    TableSlip(
        "a checkpoint that replaces the last one counts as another",
        "Writer.save",
        "self._state.end != self._saved_end",
        "True",
    ),
    TableSlip(
        "a stop waits for rewriting",
        "TableLog.stop_cleaning",
        "self._is_stopping = True",
        "pass",
    ),
    TableSlip(
        "what else is in a file is never learned",
        "Rewriting.step",
        "self.new.besides = self.new.size - self._of_messages",
        "pass",
    ),
    TableSlip(
        "a checkpoint comes only after the copy",
        "TableLog._step",
        "not writer.is_saved",
        "False",
    ),
    TableSlip(
        "what a repair has given up becomes a hole",
        "Rewriting._add",
        "record.kind == RecordKind.LOST and record.count",
        "False",
    ),
    TableSlip(
        "tombstones go before what they delete",
        "Rewriting._add_rows",
        "kept = self._with_tombstones(rows, kept)",
        "pass",
    ),
    TableSlip(
        "tombstones wait for no older file",
        "TableLog._begin",
        "clean_below(segments[:first])",
        "clean_below([])",
    ),
    TableSlip(
        "messages are kept by what was live at the beginning",
        "Rewriting.step",
        "record.base + record.count > known",
        "False",
    ),
    TableSlip(
        "nobody is told of deletions before the start",
        "loading:load",
        "state.deleted_below = kept.deleted_below",
        "kept.deleted_below = 0",
    ),
    TableSlip(
        "the log does not know which tombstones have gone",
        "TableLog.gather",
        "self._writer.know_deleted(self._kept.deleted_below)",
        "pass",
    ),
    TableSlip(
        "what supersedes may be torn",
        "Writer.put_in_place",
        "self.save()",
        "pass",
    ),
    TableSlip(
        "files that a checkpoint names are rewritten",
        "Writer.rewritable_below",
        "min(self._saved_before, self._saved_in)",
        "self.segments[-1].base",
    ),
    TableSlip(
        "the old files are removed before the new one has its place",
        "Writer.put_in_place",
        "new = done.put_in_place()",
        """
        for old in done.run[1:]:
            self._disk.remove([old.path])
        new = done.put_in_place()
        """,
    ),
    TableSlip(
        "a start takes the first message of a key",
        "_note_newest",
        "newest.update(zip(rows.batch.keys(), rows.offsets, strict=True))",
        "newest.update({k: newest.get(k, at) for k, at in zip(rows.batch.keys(), rows.offsets)})",
    ),
    TableSlip(
        "damage before the checkpoint is skipped",
        "_note_damage",
        "not recovered.damage",
        "False",
    ),
    TableSlip(
        "a batch is judged without what waits",
        "Ahead.judge",
        "not self._batches",
        "True",
    ),
    TableSlip(
        "what has expired is superseded once more",
        "Ahead.expire_below",
        "self._count(replaced, 1)",
        "pass",
    ),
    TableSlip(
        "what was taken back still counts",
        "Ahead.take_all_back",
        "self._messages = 0",
        "pass",
    ),
    TableSlip(
        "readers go over what a repair has given up",
        "DurableTable.lost_until",
        "offset = end",
        "pass",
    ),
    TableSlip(
        "a frame goes over what a repair has given up",
        "DurableTable.read",
        "before = min(before, begin)",
        "pass",
    ),
    TableSlip(
        "a log that is full is never looked at",
        "Writer.rewritable_below",
        "return self._saved_in",
        "return min(self._saved_before, self._saved_in)",
    ),
    TableSlip(
        "a checkpoint is no reason to look again",
        "TableLog.clean",
        "seen != self._seen",
        "seen[:4] != self._seen[:4]",
    ),
]
