"""The log of a table: a log that is rewritten, a step at a time, between two groups of records.

    group │ step │ group │ step │ step │ group │ …      one thread, one after the other

A step reads about a megabyte. After each group comes one step, so publishing goes on; where nothing
is published, the steps follow each other. If more is superseded than steps remove, the log would
grow, so from a certain size on, there are as many steps as what was written needs.

What is to be rewritten is decided on the event loop, where the table is: it knows what is live. The
thread is given the offsets of the live messages that it will meet next. What is superseded
meanwhile stays until the next time.
"""

import logging
from array import array
from collections.abc import Callable
from functools import partial
from typing import cast

from zaichik.core.tables.keep_last import KeepLast
from zaichik.core.tables.table_owner import TableOwner
from zaichik.storage.cleaning.choice import clean_below, worth_rewriting
from zaichik.storage.cleaning.kept import COLUMNS
from zaichik.storage.cleaning.rewriting import STEP, CannotRewrite, Rewriting
from zaichik.storage.disk import Disk, DiskFull
from zaichik.storage.recovery import Recovered
from zaichik.storage.resources import LogResources
from zaichik.storage.segment import Segment, TopicHeader
from zaichik.storage.topic_log import TopicLog
from zaichik.storage.work import Completion
from zaichik_protocol import FOREVER

logger = logging.getLogger("zaichik.log.cleaning")

LOOK_EVERY = 1024 * 1024  # bytes that are written between two looks at what is worth it
# Live offsets that a step is given, or all of a record that has more.
OFFSETS = 32_768
BESIDES = 8 * 1024 * 1024  # bytes; or eight checkpoints, if that is more: see `TableLog.bound`
PACE = 2  # bytes that are read for each that was written, if the log is too large
MOST_OWED = 16 * 1024 * 1024  # bytes that are read before the next group, at most


class TableLog(TopicLog):
    """See above, and `TopicLog`.

    `bound` is 2.5 times what live messages take, two segments, and what may lie after the last two
    checkpoints.
    """

    def __init__(
        self,
        disk: Disk,
        folder: str,
        topic: TopicHeader,
        recovered: Recovered,
        resources: LogResources,
    ) -> None:
        self._rewriting: Rewriting | None = None
        self._wants_look = False
        self._is_stopping = False
        self._looks_when_saved = False  # a checkpoint was asked for, so that more may be rewritten
        self._is_step_next = False
        self._owed = 0  # bytes that steps are to read before the next group
        self._written = 0  # by groups, at the last look
        # What there was at the last sweep: nothing else changes what is worth it.
        self._seen: tuple[int, ...] = ()
        super().__init__(disk, folder, topic, recovered, resources)
        self.bound = BESIDES + 2 * self._writer.segment_bytes

    @property
    def _kept(self) -> KeepLast:
        """What is in the table."""
        return cast("TableOwner", self.owner).kept

    # -- the event loop ----------------------------------------------------------------------------

    def clean(self) -> None:
        """See `Log`."""
        kept = self._kept
        writer = self._writer
        seen = (
            self.size,
            kept.next_offset,
            kept.live,
            kept.deleted_below,
            writer.rewritable_below(is_full=False),
            writer.rewritable_below(is_full=True),
        )
        if seen != self._seen and self._rewriting is None and not self.is_deleted:
            self._seen = seen
            self._wants_look = True
            self._work.write(self)

    def stop_cleaning(self) -> None:
        """See `TopicLog`: what is half done is given up; a start does it again."""
        self._is_stopping = True

    def _has_more_work(self) -> bool:
        return self._wants_look or (self._rewriting is not None and not self.damage)

    def gather(self) -> Callable[[], Completion]:
        """See `TopicLog`: a step, if it is the turn of one."""
        if self.is_deleted:
            self._rewriting = None
            return super().gather()
        self._writer.know_deleted(self._kept.deleted_below)
        if self._wants_look:
            self._look()
        rewriting = self._rewriting
        if rewriting is not None and not self.damage:
            if self._is_stopping:
                return partial(self._give_up, rewriting)
            is_turn = self._is_step_next or self._owed > 0 or not self._has_writes()
            if is_turn:
                return self._gather_step(rewriting)
        self._is_step_next = True
        return super().gather()

    def _gather_step(self, rewriting: Rewriting) -> Callable[[], Completion]:
        self._is_step_next = False
        self._owed = max(self._owed - STEP, 0)
        segments = self._writer.segments
        if not all(segment in segments for segment in rewriting.run):
            # They have expired meanwhile.
            return partial(self._give_up, rewriting)
        wanted = rewriting.wanted
        live = self._kept.live_offsets(rewriting.offset, OFFSETS, wanted)
        known = rewriting.new.until
        if len(live) >= OFFSETS:
            known = min(known, max(live[-1] + 1, wanted))
        return partial(self._step, rewriting, live, known)

    def _look(self) -> None:
        """Begin to rewrite what is worth it, if there is anything. No thread may be at work."""
        self._wants_look = False
        self._looks_when_saved = False
        writer = self._writer
        kept = self._kept
        self._written = writer.written
        messages, live = kept.live_between(self.head, kept.next_offset)
        live += COLUMNS * messages
        besides = max(BESIDES, 8 * writer.checkpoint_bytes)
        self.bound = live * 5 // 2 + 2 * writer.segment_bytes + besides
        if self._rewriting is not None or self.damage or self._is_stopping:
            return
        is_full = self.size > self._log_bytes * 3 // 4
        worth = partial(
            worth_rewriting,
            writer.segments,
            live=kept.live_between,
            most=writer.segment_bytes,
            is_full=is_full,
        )
        run = worth(below=writer.rewritable_below(is_full=is_full))
        if run:
            self._begin(run)
        elif writer.may_save and worth(below=FOREVER):
            self._wants_save = True
            self._looks_when_saved = True

    def _begin(self, run: list[Segment]) -> None:
        segments = self._writer.segments
        first = segments.index(run[0])
        until = segments[first + len(run)].base
        stuck_from = clean_below(segments[:first])
        self._rewriting = self._writer.rewriting(run, until, self._kept.next_offset, stuck_from)

    def _finish(self, count: int, full: str) -> None:
        """See `TopicLog`."""
        super()._finish(count, full)
        if self.is_deleted:
            return
        written = self._writer.written - self._written
        if self.size > self.bound:
            self._owed = min(self._owed + PACE * written, MOST_OWED)
        if written >= LOOK_EVERY or (self._looks_when_saved and self._writer.is_saved):
            self._look()

    def _has_stepped(self, *, is_done: bool) -> None:
        if is_done:
            self._rewriting = None
            self._look()
        self._resize(self._writer.bytes)

    def _resize(self, size: int) -> None:
        """See `TopicLog`: what is being made counts as well."""
        if self._rewriting is not None:
            size += self._rewriting.size
        super()._resize(size)

    # -- threads -----------------------------------------------------------------------------------

    def _step(self, rewriting: Rewriting, live: "array[int]", known: int) -> Completion:
        """Rewrite a piece. Runs in a worker thread."""
        writer = self._writer
        if not rewriting.size:
            # Without room for a checkpoint nothing could be replaced, so nothing is copied.
            writer.save()
            if not writer.is_saved:
                return self._give_up(rewriting)
        try:
            is_done = rewriting.step(live, known)
            if is_done and not writer.put_in_place(rewriting):
                return self._has_given_up
        except CannotRewrite as damage:
            logger.warning("a table cannot be rewritten: %s; see `zaichik check`", damage)
            for segment in rewriting.run:
                segment.is_rewritable = False
            return self._give_up(rewriting)
        except DiskFull as error:
            logger.info("%s cannot be rewritten now: %s", rewriting.new.path, error)
            return self._give_up(rewriting)
        if is_done:
            new = rewriting.new
            logger.debug("%s was rewritten: %d bytes are left of it", new.path, new.size)
        return partial(self._has_stepped, is_done=is_done)

    def _give_up(self, rewriting: Rewriting) -> Completion:
        """Rewrite nothing until the next look. Runs in a worker thread."""
        rewriting.give_up()
        return self._has_given_up

    def _has_given_up(self) -> None:
        self._rewriting = None
        self._resize(self._writer.bytes)
