"""Bugs in what is on the disk: how it is written, what a start makes of it, when it is reported.

They are slips as those in `planted_slips.py`, in a table of their own. None of them is seen as long
as nothing fails: each needs a crash, a full disk, a restart, or a client that asks at a moment at
which it should see nothing.
"""

from planted_slips import Slip

DURABLE_SLIPS = [
    # -- what is written, and synced ---------------------------------------------------------------
    Slip(
        "a write is answered before its sync",
        "PosixDisk._put",
        "_sync(file, path)",
        "pass",
        "storage/test_disk.py",
    ),
    Slip(
        "the name of a new file is not synced",
        "PosixDisk._put",
        """
        if not at:
            self._sync_folder(path)
        """,
        "pass",
        "storage/test_disk.py",
    ),
    Slip(
        "the name of a new folder is not synced",
        "PosixDisk.replace",
        "self._sync_folder(str(target.parent.relative_to(self.root)))",
        "pass",
        "storage/test_disk.py",
    ),
    Slip(
        "the name of a replaced file is not synced",
        "PosixDisk.replace",
        "self._sync_folder(path)",
        "pass",
        "storage/test_disk.py",
    ),
    Slip(
        "a removal is not synced",
        "PosixDisk.remove",
        """
        if paths:
            self._sync_folder(paths[-1])
        """,
        "pass",
        "storage/test_disk.py",
    ),
    Slip(
        "another name is not synced",
        "PosixDisk.rename",
        "self._sync_folder(new)",
        "pass",
        "storage/test_disk.py",
    ),
    Slip(
        "the names that a start finds are not synced",
        "recover",
        "disk.sync_names(folder)",
        "pass",
        "storage/test_power_cuts.py",
    ),
    Slip(
        "the topics that a start finds are not synced",
        "Store._load",
        "self._disk.sync_names(TOPICS)",
        "pass",
        "storage/test_power_cuts.py",
    ),
    Slip(
        "several files are removed before the first is gone from the disk",
        "Writer.drop_below",
        """
        for path in gone:
            self._disk.remove([path])
        """,
        "self._disk.remove(gone)",
        "storage/test_power_cuts.py",
    ),
    Slip(
        "a file that came back after its removal is believed",
        "recorded_head",
        'max((fields.get("head", 0) for fields, _ in known), default=0)',
        "0",
        "storage/test_recovery.py",
    ),
    Slip(
        "a file that was only begun proves nothing",
        "_fold",
        "bool(recovered.damage or begun)",
        "bool(recovered.damage)",
        "storage/test_recovery.py",
    ),
    Slip(
        "a sync that has failed is tried again",
        "storage.disk:_sync",
        "os.fdatasync(file)",
        """
        try:
            os.fdatasync(file)
        except OSError:
            os.fdatasync(file)
        """,
        "storage/test_disk.py",
    ),
    Slip(
        "a disk that is broken is taken for a full one",
        "FULL",
        "{errno.ENOSPC, errno.EDQUOT, errno.EFBIG}",
        "{errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EFBIG}",
        "storage/test_disk.py",
    ),
    Slip(
        "what was taken back is not synced",
        "PosixDisk._take_back",
        "_sync(file, path)",
        "pass",
        "storage/test_disk.py",
    ),
    Slip(
        "what was half written stays",
        "PosixDisk._put",
        "self._take_back(file, path, at)",
        "pass",
        "storage/test_disk.py",
    ),
    Slip(
        "what a short write has left out is forgotten",
        "PosixDisk._write",
        "data[written:]",
        "data[:0]",
        "storage/test_disk.py",
    ),
    Slip(
        "a start believes what is only in memory",
        "PosixDisk.drop_cache",
        "_sync(file, path)",
        "pass",
        "storage/test_disk.py",
    ),
    Slip(
        "what others do to a file is not noticed",
        "PosixDisk._put",
        "self._check_unchanged(path, at, status)",
        "pass",
        "storage/test_disk.py",
    ),
    Slip(
        "a file that was put in the place of another is written",
        "PosixDisk._check_unchanged",
        "status.st_ino != inode",
        "False",
        "storage/test_disk.py",
    ),
    Slip(
        "a log that others have changed leaves no proof of its end",
        "Writer.give_up",
        "self.save()",
        "pass",
        "storage/test_store.py",
    ),
    Slip(
        "the reserve is used up",
        "PosixDisk._write",
        "size and free - size < reserve",
        "False and free - size < reserve",
        "storage/test_disk.py",
    ),
    Slip(
        "checkpoints find no room in the reserve",
        "PosixDisk.replace",
        "self._put(str(hidden.relative_to(self.root)), 0, [data], 0)",
        "self._put(str(hidden.relative_to(self.root)), 0, [data], self.reserve)",
        "storage/test_disk.py",
    ),
    Slip(
        "the next group is written before the sync of the one before",
        "DiskWork.write",
        "log not in self._busy",
        "True",
        "server/test_disk_threads.py",
    ),
    Slip(
        "all that waits is one group",
        "TopicLog.gather",
        "size >= GROUP or count == MOST_WRITES",
        "count == MOST_WRITES",
        "storage/test_topic_log.py",
    ),
    Slip(
        "each segment begins within a group",
        "writer:Writer._append",
        "record.pack(segment.salt, at)",
        "record.pack(segment.salt, 0)",
        "storage/test_recovery.py",
    ),
    Slip(
        "a checkpoint has what found no room",
        "writer:Writer._append",
        """
        self._disk.write(
            segment.path, at, [record.pack(segment.salt, at) for record in group]
        )
        """,
        """
        data = [record.pack(segment.salt, at) for record in group]
        for record in group:
            self._state.add(record)
        self._disk.write(segment.path, at, data)
        """,
        "storage/test_writer.py",
    ),
    Slip(
        "files go before a checkpoint tells of them",
        "Writer.drop_below",
        """
        while segments[count].base > self._saved_in and count:
            count -= 1
        """,
        "pass",
        "storage/test_writer.py",
    ),
    Slip(
        "one checkpoint is kept",
        "KEPT_CHECKPOINTS",
        "KEPT_CHECKPOINTS = 2",
        "KEPT_CHECKPOINTS = 1",
        "storage/test_writer.py",
    ),
    Slip(
        "a segment whose first record has expired goes on",
        "writer:Writer.write",
        "segment.size >= self.segment_bytes or self._is_old(segment, group[0].accepted_us)",
        "segment.size >= self.segment_bytes",
        "storage/test_writer.py",
    ),
    Slip(
        "an interrupted deletion leaves half a topic",
        "Writer.delete",
        """
        self._disk.rename(self.folder, self.folder + DELETED)
        remove_folder(self._disk, self.folder + DELETED)
        """,
        "remove_folder(self._disk, self.folder)",
        "storage/test_writer.py",
    ),
    Slip(
        "all files have one salt",
        "Writer._roll",
        "secrets.randbits(32)",
        "0",
        "storage/test_writer.py",
    ),
    Slip(
        "no checksum begins with the salt",
        "record:crc32",
        "from zlib import crc32",
        """
        from zlib import crc32 as plain


        def crc32(data, _=0):
            return plain(data)
        """,
        "storage/test_record.py",
    ),
    # -- what a start makes of it ------------------------------------------------------------------
    Slip(
        "the checksum of a body is not looked at",
        "RecordHeader.record",
        "len(body) < self.body or crc32(body, salt) != self.body_crc",
        "len(body) < self.body",
        "storage/test_record.py",
    ),
    Slip(
        "what is torn is taken for whole",
        "_fold",
        """
        disk.write(segment.path, position, [])
        segment.size = position
        """,
        "pass",
        "storage/test_recovery.py",
    ),
    Slip(
        "what is torn is not cut off on the disk",
        "_fold",
        "disk.write(segment.path, position, [])",
        "pass",
        "storage/test_recovery.py",
    ),
    Slip(
        "what is damaged is taken for torn",
        "_proof",
        "step.header.group_at > place[1]",
        "False",
        "storage/test_recovery.py",
    ),
    Slip(
        "what is torn is taken for damaged",
        "_proof",
        "step.header.group_at > place[1]",
        "True",
        "storage/test_recovery.py",
    ),
    Slip(
        "a record of the same group proves a sync",
        "_proof",
        "step.header.group_at > place[1]",
        "step.header.group_at >= place[1]",
        "storage/test_recovery.py",
    ),
    Slip(
        "a checkpoint proves nothing",
        "_proof",
        "place < synced",
        "False",
        "storage/test_recovery.py",
    ),
    Slip(
        "a later segment proves nothing",
        "_proof",
        """
        if not is_last:
            return "another segment follows"
        """,
        """
        if False:
            return "another segment follows"
        """,
        "storage/test_recovery.py",
    ),
    Slip(
        "a file that is missing is not noticed",
        "_fold",
        "segment.base != state.end and position == HEAD_SIZE",
        "False",
        "storage/test_recovery.py",
    ),
    Slip(
        "a checkpoint of another epoch is believed",
        "checkpoints",
        'found is None or found[0]["epoch"] != topic.epoch',
        "found is None",
        "storage/test_recovery.py",
    ),
    Slip(
        "a checkpoint of another file is believed",
        "of_segments",
        'salts.get(fields["segment"], fields["salt"]) == fields["salt"]',
        "True",
        "storage/test_writer.py",
    ),
    Slip(
        "a checkpoint is believed beyond the end of its file",
        "_from_checkpoint",
        'segment.base == fields["segment"] and fields["position"] <= segment.size',
        'segment.base == fields["segment"]',
        "storage/test_recovery.py",
    ),
    Slip(
        "the oldest checkpoint is used",
        "_from_checkpoint",
        "max(good, key=itemgetter(0, 1))",
        "min(good, key=itemgetter(0, 1))",
        "storage/test_recovery.py",
    ),
    Slip(
        "the disk is not asked before it is believed",
        "_fold",
        "disk.drop_cache(segment.path)",
        "pass",
        "storage/test_recovery.py",
    ),
    Slip(
        "a damaged file is believed",
        "unseal",
        "data == seal(mark, inner)",
        "data.startswith(mark)",
        "storage/test_segment.py",
    ),
    Slip(
        "readers note out of order",
        "Segment.note",
        """
        with self._noting:
            if not self.positions or position - self.positions[-1] >= INDEX_EVERY:
                self.positions.append(position)
                self.offsets.append(offset)
                self.times.append(accepted_us)
        """,
        """
        if not self.positions or position - self.positions[-1] >= INDEX_EVERY:
            with self._noting:
                self.positions.append(position)
                self.offsets.append(offset)
                self.times.append(accepted_us)
        """,
        "storage/test_segment.py",
    ),
    Slip(
        "a reader believes what is being written",
        "walk:_read",
        "min(size, segment.size - position)",
        "size",
        "storage/test_walk.py",
    ),
    Slip(
        "positions are not restored",
        "restore",
        "_restore_positions(broker, controller, state)",
        "pass",
        "server/test_durable.py",
    ),
    Slip(
        "what may have been delivered before a restart is not marked",
        "_restore_positions",
        "position.delivered = max(committed, state.end)",
        "pass",
        "server/test_durable.py",
    ),
    Slip(
        "producers are not restored",
        "restore",
        "broker.producers.restore(name, producer, known.next, answers, used_us)",
        "pass",
        "server/test_durable.py",
    ),
    Slip(
        "answers are not restored",
        "restore",
        "broker.producers.restore(name, producer, known.next, answers, used_us)",
        "broker.producers.restore(name, producer, known.next, [], used_us)",
        "server/test_durable.py",
    ),
    Slip(
        "windows are not restored",
        "restore",
        "controller.window.admit([key], opened_us + younger_us)",
        "pass",
        "server/test_durable.py",
    ),
    Slip(
        "windows begin anew at a restart",
        "restore",
        "controller.window.admit([key], opened_us + younger_us)",
        "controller.window.admit([key], broker.clock.now_us())",
        "server/test_durable.py",
    ),
    Slip(
        "the boot is taken for the epoch",
        "restore",
        "topic.epoch",
        "broker.boot",
        "server/test_durable.py",
    ),
    Slip(
        "the clock does not know what was accepted",
        "Store._load",
        "max(self.clock_us, recovered.state.accepted_us, topic.epoch)",
        "max(self.clock_us, topic.epoch)",
        "storage/test_store.py",
    ),
    Slip(
        "the clock is set back with that of the machine",
        "ClockFile.start",
        "SystemClock(least_us)",
        "SystemClock()",
        "server/test_durable.py",
    ),
    Slip(
        "of two topics of a name the older one is kept",
        "Store._load",
        "old[1].epoch < topic.epoch",
        "old[1].epoch > topic.epoch",
        "storage/test_store.py",
    ),
    Slip(
        "the lock is not taken",
        "FolderLock._lock",
        "fcntl.flock(descriptor, how | fcntl.LOCK_NB)",
        "pass",
        "storage/test_store.py",
    ),
    Slip(
        "a copy of a topic's folder is the topic",
        "misnamed",
        "name.removesuffix(DELETED) == own",
        "True",
        "storage/test_store.py",
    ),
    Slip(
        "a link is overlooked",
        "link_in",
        "size == LINK and OWN_FILE.fullmatch(name)",
        "False",
        "storage/test_store.py",
    ),
    Slip(
        "only a file is locked, which anybody can remove",
        "FolderLock.__init__",
        "self._lock_topics(path, how)",
        "pass",
        "storage/test_store.py",
    ),
    Slip(
        "the lock is let go while a thread may still write",
        "FolderPersistence.release",
        "not self._threads.are_at_work",
        "True",
        "server/test_hung_disk.py",
    ),
    Slip(
        "after a bug in handling the disk, the folder stays locked",
        "Server._serve_connections",
        "self._persistence.release()",
        "pass",
        "server/test_durable.py",
    ),
    Slip(
        "a topic that cannot be read is created again",
        "Store.check",
        "unreadable.startswith(folder)",
        "False",
        "storage/test_store.py",
    ),
    Slip(
        "a start reads in the event loop's thread",
        "open_broker",
        "await to_thread.run_sync(Store.open, data)",
        "Store.open(data)",
        "server/test_threads.py",
    ),
    Slip(
        "a stop writes in the event loop's thread",
        "FolderPersistence.close",
        "await to_thread.run_sync(self._store.save, self._broker.clock.now_us())",
        "self._store.save(self._broker.clock.now_us())",
        "server/test_threads.py",
    ),
    # -- what is told, and when --------------------------------------------------------------------
    Slip(
        "a publish is answered before it is on the disk",
        "Durable.publish",
        "answer = self.queue.add_batch(write, stored)",
        """
        answer = self.queue.add_batch(write, stored)
        answer.settle(Published(0, write.base, stored.count, write.compacted, 0, dropped))
        """,
        "core/test_durable.py",
    ),
    Slip(
        "an answer that all was compacted does not wait",
        "Durable.publish",
        "opened: list[bytes] = []",
        """
        opened: list[bytes] = []
        if not kept:
            answer = Pending()
            answer.settle(
                Published(0, self.next, 0, batch.count, len(self._topic.readers), dropped)
            )
            return answer
        """,
        "core/test_durable.py",
    ),
    Slip(
        "readers hear of a message before its publisher",
        "Durable.on_synced",
        """
        self.queue.answer(done)
        if isinstance(done.what, Batch):
            batch = done.what
            topic.count_compacted(done.compacted)
            if batch.count:
                topic.store(batch, done.accepted_us)
        """,
        """
        if isinstance(done.what, Batch):
            batch = done.what
            topic.count_compacted(done.compacted)
            if batch.count:
                topic.store(batch, done.accepted_us)
        self.queue.answer(done)
        """,
        "core/test_durable.py",
    ),
    Slip(
        "windows are not taken back",
        "Durable.on_refused",
        "window.take_back(undone.opened)",
        "pass",
        "core/test_durable.py",
    ),
    Slip(
        "windows that others have opened are taken back",
        "Durable.publish",
        "[key for key in keys if key]",
        "[key for key in batch.keys() if key]",
        "core/test_durable_histories.py",
    ),
    Slip(
        "offsets are not taken back",
        "WriteQueue.take_back",
        "self.next = undone.base",
        "pass",
        "core/test_durable.py",
    ),
    Slip(
        "what waits is taken back the oldest first",
        "WriteQueue.take_back",
        "self.waiting.pop()",
        "self.waiting.popleft()",
        "core/test_durable.py",
    ),
    Slip(
        "numbers are not taken back",
        "Producers._take_back",
        "known.next = sequence",
        "pass",
        "core/test_durable.py",
    ),
    Slip(
        "what waited is counted for ever when it is taken back",
        "WriteQueue.take_back",
        "retained.waiting_bytes = 0",
        "pass",
        "core/test_durable.py",
    ),
    Slip(
        "without room, positions count as written",
        "WriteQueue.take_back",
        "self._positions = undone.known",
        "pass",
        "core/test_durable.py",
    ),
    Slip(
        "a position that is forgotten comes back",
        "WriteQueue.save_positions",
        "moved |= {name: None for name in known if name not in now}",
        "pass",
        "core/test_durable.py",
    ),
    Slip(
        "what waits for the disk is not counted",
        "WriteQueue.add_batch",
        "before // UNCOUNTED_BYTES != retained.waiting_memory // UNCOUNTED_BYTES",
        "False",
        "core/test_durable.py",
    ),
    Slip(
        "what was dropped counts as memory until the next sweep",
        "Durable.on_synced",
        "topic.charge()",
        "pass",
        "core/test_durable.py",
    ),
    Slip(
        "what waits for the disk costs its bytes only",
        "WriteQueue._add",
        "self._retained.waiting_memory += prices.WAITING",
        "pass",
        "core/test_durable.py",
    ),
    Slip(
        "what was refused counts as memory until the next sweep",
        "WriteQueue.take_back",
        "self._topic.charge()",
        "pass",
        "core/test_durable.py",
    ),
    Slip(
        "a busy topic writes a checkpoint every second",
        "Durable.sweep",
        "size == self._swept_size and not self.waiting",
        "not self.waiting",
        "core/test_durable.py",
    ),
    Slip(
        "without room, what waits is written later",
        "TopicLog._finish",
        'self.owner.on_refused(Refused(ErrorCode.STORAGE_FULL, problem, "topic"))',
        "pass",
        "storage/test_topic_log.py",
    ),
    Slip(
        "without room, who waits for all is told that it is there",
        "WriteQueue.take_back",
        "undone.answer.settle(refusal)",
        "undone.answer.settle(True if undone.what is None else refusal)",
        "core/test_durable.py",
    ),
    Slip(
        "a topic is created before it is on the disk",
        "SubscriptionManager._carry_out",
        "registry.when_written(topic, reply)",
        "reply",
        "core/test_durable.py",
    ),
    Slip(
        "a topic is created again before it is on the disk",
        "TopicRegistry.when_written",
        "answer = topic.retained.when_written(reply)",
        "answer = topic.retained.when_written(reply) if reply.created else reply",
        "core/test_durable.py",
    ),
    Slip(
        "a topic that has found no room stays",
        "TopicRegistry.when_written",
        "answer.then(partial(self._undo, topic))",
        "pass",
        "core/test_durable.py",
    ),
    Slip(
        "a deletion is answered before the files are gone",
        "WriteQueue.delete",
        "self._log.delete(partial(self._refuse_rest, gone))",
        """
        self._log.delete(lambda: None)
        self._refuse_rest(gone)
        """,
        "core/test_durable.py",
    ),
    Slip(
        "what waits is refused before its topic is gone",
        "WriteQueue.delete",
        "self._log.delete(partial(self._refuse_rest, gone))",
        """
        problem = "it was deleted while this waited"
        self._log.owner.on_refused(Refused(ErrorCode.NO_SUCH_TOPIC, problem))
        self._log.delete(partial(self._refuse_rest, gone))
        """,
        "core/test_durable.py",
    ),
    Slip(
        "what a lossless topic's readers need is removed",
        "TopicLog._room_for",
        "min(excess, self.owner.needed)",
        "excess",
        "storage/test_topic_log.py",
    ),
    Slip(
        "who comes while files go loses what it needs",
        "Durable.earliest",
        "max(self._head, self.log.head)",
        "self._head",
        "core/test_durable_reading.py",
    ),
    Slip(
        "nobody knows which files are going",
        "TopicLog.gather",
        "self._writer.can_drop(below)",
        "False",
        "storage/test_topic_log.py",
    ),
    Slip(
        "what is being written does not count against the limit of all logs",
        "TopicLog.gather",
        "self._resize(self._writer.bytes_from(below) + written)",
        "pass",
        "storage/test_topic_log.py",
    ),
    Slip(
        "files go for a group that finds no room all the same",
        "TopicLog._room_for",
        "self._below, full",
        "below, full",
        "storage/test_topic_log.py",
    ),
    Slip(
        "the limit of all logs is not told to them",
        "FolderPersistence.__init__",
        "store.limit = broker.settings.max_disk_bytes",
        "pass",
        "server/test_durable.py",
    ),
    Slip(
        "the head is told while the files are still there to be read",
        "Writer.drop_below",
        """
        del segments[:count]
        for path in gone:
            self._disk.remove([path])
        """,
        """
        for path in gone:
            self._disk.remove([path])
        del segments[:count]
        """,
        "storage/test_writer.py",
    ),
    Slip(
        "nobody is told where the log begins now",
        "TopicLog._finish",
        "self.owner.on_head_moved(self.head, self._own)",
        "pass",
        "storage/test_topic_log.py",
    ),
    Slip(
        "what goes for the limit of all logs is told as the log's own",
        "TopicLog._room_for",
        "writer.excess(self._log_bytes - size)",
        "FOREVER",
        "storage/test_topic_log.py",
    ),
    Slip(
        "what has expired is delivered from the disk",
        "Durable.entry",
        "found is not None and found.accepted_us <= limit_us",
        "False",
        "core/test_durable_reading.py",
    ),
    Slip(
        "what has expired is found by its time",
        "Durable._first_on_disk",
        "max(time_us, self._topic.expired_until_us + 1)",
        "time_us",
        "core/test_durable_reading.py",
    ),
    Slip(
        "a subscription begins where there is nothing any more",
        "Durable._found_first",
        "max(found, self._head, self.log.head)",
        "found",
        "core/test_durable_reading.py",
    ),
    Slip(
        "what waits for the disk expires",
        "Durable.sweep",
        "min(expired, self.ring.next_offset)",
        "expired",
        "core/test_durable_reading.py",
    ),
    Slip(
        "what was dropped is delivered",
        "Durable.entry",
        """
        if offset < self._head:
            return None
        """,
        "pass",
        "core/test_durable_reading.py",
    ),
    Slip(
        "a reader that asks again has a chunk read twice",
        "TopicLog.entry",
        "wake in self._reading",
        "False",
        "storage/test_topic_log.py",
    ),
    Slip(
        "a chunk comes for a reader that has left",
        "TopicLog._has_read",
        """
        if wake not in self._reading:
            return
        self._reading.remove(wake)
        """,
        "self._reading.discard(wake)",
        "storage/test_topic_log.py",
    ),
    Slip(
        "a chunk stays when its reader leaves",
        "TopicLog.release",
        "self._chunks.drop(wake)",
        "pass",
        "storage/test_topic_log.py",
    ),
    Slip(
        "damage is passed over in silence",
        "read_chunk",
        """
        if record.base > wanted:
            break
        """,
        "pass",
        "storage/test_reading.py",
    ),
    Slip(
        "damage is passed over by who asks for a time",
        "first_since",
        "return wanted",
        "return record.base",
        "storage/test_reading.py",
        nth=1,
    ),
    # -- what a repair makes of it -----------------------------------------------------------------
    Slip(
        "what a repair has given up is delivered",
        "read_chunk",
        "record is None or record.kind != RecordKind.MESSAGES",
        "record is None",
        "storage/repair/test_repairing.py",
    ),
    Slip(
        "a repair keeps no damaged file",
        "_rewrite",
        "_keep(disk, path, size)",
        "pass",
        "storage/repair/test_repairing.py",
    ),
    Slip(
        "what is lost takes less room than it did",
        "storage.repair.repairing:_records",
        "bytes(max(size - HEADER.size, 0))",
        'b""',
        "storage/repair/test_repairing.py",
    ),
    Slip(
        "what is lost is one record, however large",
        "storage.repair.repairing:_records",
        "left < 2 * AT_ONCE",
        "True",
        "storage/repair/test_repairing.py",
    ),
    Slip(
        "the broker is not told what is lost",
        "repair",
        "joined(checked.lost + checked.damaged)",
        "()",
        "storage/repair/test_repairing.py",
    ),
    Slip(
        "a torn end is given up as if it had been synced",
        "_tear",
        "stretch.position >= max(group, synced)",
        "False",
        "storage/repair/test_repairing.py",
    ),
    Slip(
        "what was synced is cut off as torn",
        "_tear",
        "stretch.position >= max(group, synced)",
        "True",
        "storage/repair/test_repairing.py",
    ),
    Slip(
        "a start would begin in the middle of what is lost",
        "CheckedSegment.add",
        "self.marks",
        "()",
        "storage/repair/test_repairing.py",
    ),
    Slip(
        "offsets whose file is gone are given again",
        "_parts",
        'fields["segment"] > newest',
        "False",
        "storage/repair/test_repairing.py",
    ),
    Slip(
        "a head that is lost takes all messages with it",
        "salvage",
        "segment.salt = _likeliest(counts, salts)",
        "pass",
        "storage/repair/test_salvage.py",
    ),
    Slip(
        "records of another file outvote a checkpoint",
        "_likeliest",
        "salt in salts",
        "False",
        "storage/repair/test_salvage.py",
    ),
    Slip(
        "the checkpoint of a file that was replaced outvotes records",
        "_likeliest",
        "count > MOST_FOREIGN_RECORDS",
        "False",
        "storage/repair/test_salvage.py",
    ),
    Slip(
        "what comes before a lost file expires with it",
        "checking:_read",
        "max(segment.accepted_us, at_us)",
        "segment.accepted_us",
        "storage/repair/test_repairing.py",
    ),
    Slip(
        "a head is made again with the salt of the file before",
        "_parts",
        '[fields["salt"] for fields in own]',
        '[fields["salt"] for fields in own][:1]',
        "storage/repair/test_repairing.py",
    ),
    Slip(
        "all files are set aside for a strange one",
        "check_folder",
        "checked.unneeded and not good",
        "False",
        "storage/repair/test_repairing.py",
    ),
    Slip(
        "what is there again stays lost",
        "_describe_problems",
        "joined(checked.lost) != known",
        "not set(joined(checked.lost)) <= set(known)",
        "storage/repair/test_repairing.py",
    ),
    Slip(
        "a check ends at a file that is not a topic's",
        "folders_of",
        "kind < 0 and TOPIC_FOLDER.fullmatch(name)",
        "True",
        "storage/repair/test_checking.py",
    ),
    Slip(
        "a check writes",
        "_checked",
        "exclusive_lock(folder) if is_repair else shared_lock(folder)",
        "exclusive_lock(folder)",
        "cli/test_check_command.py",
    ),
    # -- and the rest of what is told --------------------------------------------------------------
    Slip(
        "after a failed sync the next group is written",
        "DiskThreads._hand_over",
        """
        if self._has_failed():
            return
        """,
        """
        if False:
            return
        """,
        "server/test_disk_threads.py",
    ),
    Slip(
        "who reaches the end of a damaged log waits for ever",
        "Reader._next_frame",
        "damage = retained.damage",
        'damage = ""',
        "core/test_durable_reading.py",
    ),
    Slip(
        "who has read the last message of a damaged log waits for ever",
        "Reader.take",
        "not retained.damage",
        "True",
        "core/test_durable_reading.py",
    ),
    Slip(
        "who has everything when a log is damaged waits for ever",
        "WriteQueue.take_back",
        "self._log.damage",
        "False",
        "core/test_durable_reading.py",
    ),
    Slip(
        "any number of chunks is held for slow readers",
        "Chunks.put",
        "self._held and self._size + size > self._most",
        "False",
        "storage/test_reading.py",
    ),
    # -- a topic that is made again ---------------------------------------------------------------
    Slip(
        "the broker is not told of a restored topic's gap",
        "Rebuilding.finish",
        "joined(self._lost, self.head)",
        "()",
        "storage/test_rebuilding.py",
    ),
    Slip(
        "a restored topic has its name before it is whole",
        "Rebuilding.__init__",
        "self.folder + REBUILT",
        "self.folder",
        "storage/test_rebuilding.py",
    ),
    Slip(
        "what an interrupted restore has left stays",
        "Rebuilding.__init__",
        "remove_folder(disk, self._beside)",
        "pass",
        "storage/test_rebuilding.py",
    ),
    Slip(
        "a restored log is longer than it may be",
        "Rebuilding._flush",
        "self._writer.drop_below(self._writer.excess())",
        "pass",
        "storage/test_rebuilding.py",
    ),
    Slip(
        "a restored topic gives its next offset again",
        "Rebuilding.give_up",
        "self._lost.append((self.end, end))",
        "end = self.end",
        "storage/test_rebuilding.py",
    ),
]
