"""The core of the broker: one noun per file.

A message is published to a topic (`topic_controller`), which has a window of keys (`compaction`)
and retains messages (`retained`) in one of three ways: in a `ring` (`in_memory`), in a ring that is
the end of a log (`durable`), or the last one of each key (`tables`). A `reader` is a cursor with
its credit, and its `position` can outlive it. Requests and subscriptions of one connection meet in
`subscription_manager`; `broker` is what all connections share.

`tables`, `following` and `work_queue` are what only some topics have. `sharing` is fairness between
clients: of turns, memory, and places in limited lists. `report` is the state as JSON, and the
answers to why a message did not arrive. docs/understand/reading.md has the order of the files.

All of it is synchronous: no I/O, no clock of its own, no `await`.
"""
