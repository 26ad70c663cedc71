"""Bugs for the simulation to find in what outlives a broker: each a slip that shows only when it
starts again.

They are planted as those of `planted_bugs` are, and are in a table of their own: only some worlds
have a disk. Where the disk itself has the bug, it stands for the calls by which the real one asks
the system for something.
"""

from dataclasses import replace
from functools import partial

from sim_disk import SimDisk, torn

from zaichik.client.sequencer import Sequencer
from zaichik.core.durable import Durable
from zaichik.core.pending import Pending
from zaichik.core.producers import Producers
from zaichik.core.shared_names import shared_names
from zaichik.core.shared_names.saving import NameSaver, WrittenName
from zaichik.core.topic_registry import TopicRegistry
from zaichik.server.persistence import FolderPersistence
from zaichik.storage import restoring
from zaichik_protocol import Published

from . import planted_bugs
from .planted_bugs import around

BUGS = {}
bug = partial(planted_bugs.bug, table=BUGS)


# -- writing -------------------------------------------------------------------------------------


@bug(
    "P1", "P3", "BUG"
)  # BUG: something that was written later has reached the disk, so the log is damaged
def what_is_written_is_answered_before_it_is_synced(monkeypatch):
    def write(real):
        def write(self, path, at, pieces):
            old = self.content.get(path, b"")
            real(self, path, at, pieces)
            self.unsynced = {path: old, **getattr(self, "unsynced", {})}

        return write

    def copy(real):
        def copy(self):
            for path, old in getattr(self, "unsynced", {}).items():
                if path in self.content:
                    self.content[path] = torn(old, self.content[path], self.random)
            return real(self)

        return copy

    around(monkeypatch, SimDisk, "write", write)
    around(monkeypatch, SimDisk, "copy", copy)


@bug("BUG", "P2")
def a_torn_end_is_not_cut_off(monkeypatch):
    def make(real):
        def write(self, path, at, pieces):
            if pieces:
                real(self, path, at, pieces)

        return write

    around(monkeypatch, SimDisk, "write", make)


@bug("COM-2", "ERR")  # ERR: it overtakes the answer to what kept it out
def that_all_was_compacted_is_answered_before_what_kept_it_out_is_synced(monkeypatch):
    def make(real):
        def publish(
            self, batch, kept, dropped, now_us, request_id, producer, sequence, *, tombstones
        ):
            if kept:
                numbers = request_id, producer, sequence
                return real(self, batch, kept, dropped, now_us, *numbers, tombstones=tombstones)
            answer = Pending()
            answer.settle(Published(0, self.next, 0, batch.count, 0, dropped))
            return answer

        return publish

    around(monkeypatch, Durable, "publish", make)


@bug("P1", "P2", "P3", "BUG")
def offsets_that_found_no_room_are_not_given_back(monkeypatch):
    def make(real):
        def on_refused(self, refusal):
            after = self.queue.next
            real(self, refusal)
            self.queue.next = after

        return on_refused

    around(monkeypatch, Durable, "on_refused", make)


# -- positions -----------------------------------------------------------------------------------


@bug("P2", "P3")
def positions_that_found_no_room_count_as_written(monkeypatch):
    def make(real):
        def sweep(self, now_us):
            positions = {name: position.committed for name, position in self._topic.names.items()}
            if positions != getattr(self, "written", None):
                self.written = positions
                real(self, now_us)

        return sweep

    around(monkeypatch, Durable, "sweep", make)


@bug("P2", "P3", "COM-2")
def a_stop_does_not_wait_for_what_was_committed(monkeypatch):
    async def drain(self):
        pass

    monkeypatch.setattr(FolderPersistence, "drain", drain)


@bug("P2")
def after_a_restart_what_comes_again_is_not_marked(monkeypatch):
    def make(real):
        def restore_positions(broker, topic, state):
            real(broker, topic, state)
            for position in topic.names.values():
                position.delivered = position.committed

        return restore_positions

    around(monkeypatch, restoring, "_restore_positions", make)


@bug("P2")
def after_a_restart_new_messages_are_marked_too(monkeypatch):
    def make(real):
        def restore_positions(broker, topic, state):
            real(broker, topic, state)
            for position in topic.names.values():
                position.delivered += 1

        return restore_positions

    around(monkeypatch, restoring, "_restore_positions", make)


# -- shared names --------------------------------------------------------------------------------


@bug("P2", "SHR-5")
def a_restart_forgets_the_dead(monkeypatch):
    def make(real):
        def restore_queue(saved, *others):
            return real(replace(saved, dead=(), dead_keys=(), reasons=()), *others)

        return restore_queue

    around(monkeypatch, shared_names, "restore_queue", make)


@bug("SHR-4c")
def after_a_restart_what_comes_again_to_a_worker_is_not_marked(monkeypatch):
    def make(real):
        def restore_queue(*saved):
            queue = real(*saved)
            queue._delivered = 0
            for offset in queue.ledger.unsettled:
                if message := queue.ledger.find(offset):
                    message.is_again = False
            return queue

        return restore_queue

    around(monkeypatch, shared_names, "restore_queue", make)


@bug("SHR-7")
def a_shared_name_is_written_once(monkeypatch):
    def make(real):
        def take_change(self):
            change = real(self)
            if getattr(self, "is_written", False):
                return None
            self.is_written = change is not None
            return change

        return take_change

    around(monkeypatch, WrittenName, "take_change", make)


@bug("SHR-7", "SHR-5")
def what_has_changed_of_names_and_found_no_room_counts_as_written(monkeypatch):
    monkeypatch.setattr(NameSaver, "undo", lambda *_: None)


# -- topics --------------------------------------------------------------------------------------


@bug("P1")
def a_restart_changes_epochs(monkeypatch):
    def make(real):
        def restore(self, name, epoch, *others):
            return real(self, name, epoch + 1, *others)

        return restore

    around(monkeypatch, TopicRegistry, "restore", make)


@bug("COM-2")
def a_restart_closes_all_windows(monkeypatch):
    def make(real):
        def restore(broker, store):
            real(broker, store)
            for topic in broker.registry:
                if topic.window:
                    topic.window._opened_us.clear()

        return restore

    around(monkeypatch, restoring, "restore", make)


@bug("COM-2", "P3")
def a_restart_opens_all_windows_anew(monkeypatch):
    def make(real):
        def restore(broker, store):
            real(broker, store)
            for topic in broker.registry:
                for key, _ in list(topic.window.opening_times()) if topic.window else ():
                    topic.window.take_back([key])
                    topic.window.admit([key], broker.clock.now_us())

        return restore

    around(monkeypatch, restoring, "restore", make)


# -- producers -----------------------------------------------------------------------------------


@bug("P1", "P3", "P5", "ERR")
def a_restart_forgets_answers(monkeypatch):
    def make(real):
        def restore(self, scope, producer, number, answers, used_us):
            real(self, scope, producer, number, [], used_us)

        return restore

    around(monkeypatch, Producers, "restore", make)


@bug("P1", "P3", "P5", "ERR")
def a_restart_forgets_producers(monkeypatch):
    monkeypatch.setattr(Producers, "restore", lambda *_: None)


@bug("P1", "P3")
def our_client_takes_a_new_boot_for_a_new_epoch(monkeypatch):
    def make(real):
        def resume(self, *, is_new, is_same, is_restored):
            real(self, is_new=is_new, is_same=is_same and not is_new, is_restored=is_restored)

        return resume

    around(monkeypatch, Sequencer, "resume", make)
