"""Durable topics done wrong, so that it shows once the broker was killed and started again: as in `mutants_shipped`."""

from mutants_shipped import Mutant

MUTANTS = [
    Mutant(
        "records are not read at a start", "S16.30", "live should be|start should be|should have come", "log.recovery",
        "            state.add(step.record)\n", "",
    ),
    Mutant(
        "no topic is read at a start", "S16.30", "created should be", "log.restoring",
        "    for topic, found, log in store.recovered:\n", "    for topic, found, log in ():\n",
    ),
    Mutant(
        "a topic has a new epoch after a start", "S16.30", "epoch should be", "broker.topic_registry",
        "TopicController(name, known, epoch, explicit=True", "TopicController(name, known, epoch + 1, explicit=True",
    ),
    Mutant(
        "settings are the default ones after a start", "S16.30", "should have come|settings should be",
        "broker.topic_registry", "known = TopicSettings(**settings)", "known = TopicSettings(durable=True)",
    ),
    Mutant(
        "offsets leave a gap at a start", "S16.30", "first_offset should be|live should be", "log.topic_log",
        "self.end = recovered.state.end\n", "self.end = recovered.state.end + bool(recovered.state.end)\n",
    ),
    Mutant(
        "messages are younger when they are read from the disk", "S16.30", "acceptance times", "log.reading",
        "Entry(record.base, record.accepted_us, ", "Entry(record.base, record.accepted_us + 1, ",
    ),
    Mutant(
        "numbers of producers are forgotten", "S16.31", "should have come", "log.restoring",
        "broker.producers.restore(name, producer, known.next, answers, known.used_us)", "pass",
    ),
    Mutant(
        "answers of producers are forgotten", "S16.31", "should have come", "log.restoring",
        "producer, known.next, answers, known.used_us)", "producer, known.next, [], known.used_us)",
    ),
    Mutant(
        "refusals are forgotten", "S16.31", "should", "broker.durable",
        "return not refusal.code.retryable and not self.log.damage", "return False",
    ),
    Mutant(
        "what compaction dropped is forgotten", "S16.31", "compacted should be", "log.state",
        "(record.base, record.count, compacted, 0, record.dropped)", '(record.base, record.count, 0, 0, b"")',
    ),
    Mutant(
        "windows are closed after a start", "S16.32", "stored should be", "log.restoring",
        "controller.window.admit([key], opened_us)", "pass",
    ),
    Mutant(
        "windows begin anew at a start", "S16.32", "stored should be", "log.restoring",
        "controller.window.admit([key], opened_us)", "controller.window.admit([key], broker.clock.now_us())",
    ),
    Mutant(
        "positions are forgotten", "S16.33", "flags should be|start should be", "log.restoring",
        "    for name, committed in state.positions.items():\n", "    for name, committed in ():\n",
    ),
    Mutant(
        "nothing was delivered before a start", "S16.33", "flags should be", "log.restoring",
        "position.delivered = max(committed, state.end)", "position.delivered = committed",
    ),
    Mutant(
        "what is not written yet is answered", "S16.34", "acknowledged", "broker.durable",
        "        return self._write(write)\n",
        "        self._write(write).settle(Published(0, write.base, stored.count, write.compacted, 0, dropped))\n"
        "        return write.answer\n",
    ),
]  # fmt: skip
