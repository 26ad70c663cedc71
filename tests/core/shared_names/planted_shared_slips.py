"""Bugs in what ties a work queue to topics, connections and requests.

They are slips as those in `planted_slips.py`, in a table of their own. Bugs of the queues
themselves are in `planted_queue_bugs.py`.
"""

from planted_slips import Slip

READER = "core/shared_names/test_shared_reader.py"
POSITION = "core/shared_names/test_shared_position.py"
OPENING = "core/shared_names/test_opening.py"
DEAD = "core/shared_names/test_dead_requests.py"
SAVING = "core/shared_names/test_saving.py"
ROWS = "core/shared_names/test_shared_rows.py"
DELIVERY = "core/shared_names/test_shared_delivery.py"

SHARED_SLIPS = [
    # -- handing out -------------------------------------------------------------------------------
    Slip(
        "what is lost behind a message that comes again is told with it",
        "SharedReader._go_over",
        "end = first + 1",
        "end = end",
        READER,
    ),
    Slip(
        "lag counts as holes",
        "SharedReader._go_over",
        "not is_lost",
        "True",
        READER,
    ),
    Slip(
        "a frame takes all that credit allows",
        "SharedReader._read",
        "min(offer.most, MOST_IN_FRAME)",
        "offer.most",
        READER,
    ),
    Slip(
        "a message larger than its credit never goes",
        "SharedReader._read",
        "int(not worker.in_flight)",
        "0",
        READER,
    ),
    Slip(
        "a busy key keeps the turn",
        "SharedReader._next_frame",
        "range(MOST_OFFERS)",
        "range(10**6)",
        READER,
    ),
    Slip(
        "after messages of a busy key nobody goes on",
        "SharedReader._next_frame",
        "self._has_more = True",
        "self._has_more = False",
        READER,
    ),
    Slip(
        "what is to be read is not left to others",
        "SharedReader._next_frame",
        "queue.decline(self.worker)",
        "pass",
        READER,
    ),
    Slip(
        "a count is cut to what the frame can say",
        "SharedReader._hand_out",
        "min(delivery.number, MOST_NUMBER)",
        "delivery.number & MOST_NUMBER",
        READER,
    ),
    # -- leaving -----------------------------------------------------------------------------------
    Slip(
        "a close in good order is a loss",
        "SubscriptionManager.go_away",
        "self._leave_all()",
        "pass",
        READER,
    ),
    Slip(
        "a lost connection releases",
        "SharedReader.lose",
        "self.position.lose(self.worker, is_lost=True)",
        "self.position.leave(self.worker)",
        READER,
    ),
    Slip(
        "a stop counts",
        "SharedReader.stop",
        "self.position.lose(self.worker, is_lost=False)",
        "self.position.lose(self.worker, is_lost=True)",
        READER,
    ),
    Slip(
        "a broker that stops goes on handing out",
        "SharedReader._next_frame",
        "self._is_stopped",
        "False",
        READER,
    ),
    Slip(
        "owners have a second less",
        "SharedNames.machine_us",
        "(self._sweeps + 1) * SECOND_US",
        "self._sweeps * SECOND_US",
        READER,
    ),
    Slip(
        "owners have time by the clock that clients move",
        "SharedNames.sweep",
        "self._sweeps * SECOND_US",
        "now_us",
        READER,
    ),
    Slip(
        "each name of a connection has a hand of its own",
        "SubscriptionManager._begin",
        "request.shared and self._hand is None",
        "request.shared",
        READER,
    ),
    Slip(
        "who was taken over can forget the name",
        "SubscriptionManager._unsubscribe",
        "request.forget and reader.why_cut_off is None",
        "request.forget",
        READER,
    ),
    # -- the topic, the client and time ------------------------------------------------------------
    Slip(
        "who waits is not told",
        "SharedPosition.changed",
        "retained.wait(self, self.changed)",
        "pass",
        READER,
    ),
    Slip(
        "who may take again because of another name is not told",
        "WorkQueue.recall",
        "self.on_recall()",
        "pass",
        READER,
    ),
    Slip(
        "the name does not know where its topic ends",
        "SharedPosition.changed",
        "self.queue.published(retained.end)",
        "pass",
        "fuzz/test_fuzz.py::test_nothing_is_found",
    ),
    Slip(
        "the dead are not needed",
        "SharedPosition.needed",
        "self.queue.ledger.needed",
        "self.queue.ledger.next",
        POSITION,
    ),
    Slip(
        "what is open costs nobody anything",
        "SharedPosition.changed",
        "cost != self._charged",
        "False",
        POSITION,
    ),
    Slip(
        "a forgotten name is paid for",
        "SharedPosition.let_go",
        "self._names.memory.take(self.client, -self._charged)",
        "pass",
        POSITION,
    ),
    Slip(
        "a forgotten name is swept",
        "SharedPosition.let_go",
        "self._names.positions.pop(self, None)",
        "pass",
        POSITION,
    ),
    Slip(
        "time forgets shared names",
        "SharedPosition.is_forgotten_by_time",
        "False",
        "True",
        POSITION,
    ),
    Slip(
        "time that is advanced is a stall",
        "Broker.advance",
        "self.shared_names.advance(to_us)",
        "pass",
        POSITION,
    ),
    Slip(
        "a stall counts in full",
        "SharedNames.sweep",
        "self.patience.sweep(now_us)",
        "self.patience.advance(now_us)",
        POSITION,
    ),
    # -- names and rights --------------------------------------------------------------------------
    Slip(
        "workers need not agree",
        "_shared_position",
        "named.queue.check_agreed(request.max_deliveries, by_key=request.by_key)",
        "pass",
        "test_black_box.py",
    ),
    Slip(
        "what is refused has entered",
        "SubscriptionManager._enter",
        """
        reader.join()
        self._last_subscription = reader.id
        self.readers[reader.id] = reader
        """,
        """
        self._last_subscription = reader.id
        self.readers[reader.id] = reader
        reader.join()
        """,
        OPENING,
    ),
    Slip(
        "everybody may ask about the dead of others",
        "dead_requests:_position",
        "not is_own",
        "False",
        DEAD,
    ),
    Slip(
        "who may not subscribe may ask about the dead",
        "dead_requests:_position",
        "whose == user.name and may_subscribe(user, request.topic)",
        "whose == user.name",
        DEAD,
    ),
    Slip(
        "none selected is all",
        "dead_requests:_meant",
        "not request.selected",
        "not request.offsets",
        DEAD,
    ),
    Slip(
        "a page says nothing of those that could not be revived",
        "_revived",
        "done < len(readable)",
        "False",
        DEAD,
    ),
    # -- on a disk ---------------------------------------------------------------------------------
    Slip(
        "without room, names count as written",
        "NameSaver.undo",
        "written.undo(change)",
        "pass",
        SAVING,
    ),
    Slip(
        "without room, a name that is forgotten counts as written",
        "NameSaver.undo",
        "self._written[key] = gone",
        "pass",
        SAVING,
    ),
    Slip(
        "a name that is made again brings the old one back",
        "NameSaver._written_name",
        "new.know(written.offsets)",
        "pass",
        SAVING,
    ),
    Slip(
        "a name that is forgotten comes back",
        "NameSaver.write",
        "changes[key] = None",
        "pass",
        SAVING,
    ),
    Slip(
        "what is settled stays in the log",
        "WrittenName.take_change",
        "rows[str(offset)] = None",
        "pass",
        SAVING,
    ),
    Slip(
        "each second all of a name is written",
        "WrittenName.take_change",
        "saved_name(self.queue, self.changed)",
        "saved_name(self.queue, self.queue.ledger.unsettled)",
        SAVING,
    ),
    Slip(
        "nobody is told that a ticket was saved",
        "SharedNames.note_saved",
        "had_none and tickets.left",
        "False",
        SAVING,
    ),
    Slip(
        "names of durable topics wait for no disk",
        "SharedNames.new",
        "not topic.settings.durable",
        "True",
        SAVING,
    ),
    Slip(
        "names in memory wait for a disk",
        "SharedNames.new",
        "not topic.settings.durable",
        "False",
        SAVING,
    ),
    Slip(
        "files go by what nobody has written",
        "SharedPosition.needed",
        "min(needed, self._saved_needed)",
        "needed",
        SAVING,
    ),
    Slip(
        "tickets begin again",
        "storage.restoring:restore",
        "broker.shared_names.know_ticket(recovered.state.ticket)",
        "pass",
        SAVING,
    ),
    Slip(
        "a row that is gone stays",
        "take_over",
        'known["rows"].pop(offset, None)',
        "pass",
        SAVING,
    ),
    # -- reports -----------------------------------------------------------------------------------
    Slip(
        "workers are audited like readers",
        "apps.audit:audit",
        'reader["connection"] and "worker" not in reader',
        'reader["connection"]',
        ROWS,
    ),
    Slip(
        "each worker has a verdict of its own",
        "subscriptions:_all",
        "isinstance(reader, Reader)",
        "True",
        DELIVERY,
    ),
]
