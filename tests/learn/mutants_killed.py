"""Durable topics done wrong, so that it shows once the broker was killed and started again.

They are mutants as those of `mutants_shipped`.
"""

from mutants_shipped import Mutant

MUTANTS = [
    Mutant(
        "records are not read at a start",
        "S16.30",
        "live should be|start should be|should have come",
        "_fold",
        "state.add(step.record)",
        "pass",
    ),
    Mutant(
        "no topic is read at a start",
        "S16.30",
        "created should be",
        "restore",
        "store.recovered",
        "()",
        nth=2,
    ),
    Mutant(
        "a topic has a new epoch after a start",
        "S16.30",
        "epoch should be",
        "TopicRegistry.restore",
        "epoch",
        "epoch + 1",
    ),
    Mutant(
        "settings are the default ones after a start",
        "S16.30",
        "should have come|settings should be",
        "TopicRegistry.restore",
        "TopicSettings(**settings)",
        "TopicSettings(durable=True)",
    ),
    Mutant(
        "offsets leave a gap at a start",
        "S16.30",
        "first_offset should be|live should be",
        "TopicLog.__init__",
        "self.end = recovered.state.end",
        "self.end = recovered.state.end + bool(recovered.state.end)",
    ),
    Mutant(
        "messages are younger when they are read from the disk",
        "S16.30",
        "acceptance times",
        "read_chunk",
        "Entry(record.base, record.accepted_us, batch)",
        "Entry(record.base, record.accepted_us + 1, batch)",
    ),
    Mutant(
        "numbers of producers are forgotten",
        "S16.31",
        "should have come",
        "restore",
        "broker.producers.restore(name, producer, known.next, answers, used_us)",
        "pass",
    ),
    Mutant(
        "answers of producers are forgotten",
        "S16.31",
        "should have come",
        "restore",
        "broker.producers.restore(name, producer, known.next, answers, used_us)",
        "broker.producers.restore(name, producer, known.next, [], used_us)",
    ),
    Mutant(
        "refusals are forgotten",
        "S16.31",
        "should",
        "WriteQueue.record_refusal",
        "not producer or refusal.code.retryable or self._log.damage",
        "True",
    ),
    Mutant(
        "what compaction dropped is forgotten",
        "S16.31",
        "compacted should be",
        "LogState._add_messages",
        "(record.base, record.count, compacted, subscribers, record.dropped)",
        '(record.base, record.count, 0, subscribers, b"")',
    ),
    Mutant(
        "windows are closed after a start",
        "S16.32",
        "stored should be",
        "restore",
        "controller.window.admit([key], opened_us + younger_us)",
        "pass",
    ),
    Mutant(
        "windows begin anew at a start",
        "S16.32",
        "stored should be",
        "restore",
        "controller.window.admit([key], opened_us + younger_us)",
        "controller.window.admit([key], broker.clock.now_us())",
    ),
    Mutant(
        "positions are forgotten",
        "S16.33",
        "flags should be|start should be",
        "_restore_positions",
        "state.positions.items()",
        "()",
    ),
    Mutant(
        "nothing was delivered before a start",
        "S16.33",
        "flags should be",
        "_restore_positions",
        "max(committed, state.end)",
        "committed",
    ),
    Mutant(
        "what is not written yet is answered",
        "S16.34",
        "acknowledged",
        "Durable.publish",
        "answer = self.queue.add_batch(write, stored)",
        """
        answer = self.queue.add_batch(write, stored)
        answer.settle(Published(0, write.base, stored.count, write.compacted, 0, dropped))
        """,
    ),
    Mutant(
        "a table has the first message of a key after a start",
        "S16.38",
        "should have come|was not due",
        "_note_newest",
        "newest.update(zip(rows.batch.keys(), rows.offsets, strict=True))",
        "newest.update({k: newest.get(k, at) for k, at in zip(rows.batch.keys(), rows.offsets)})",
    ),
]
