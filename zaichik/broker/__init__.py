"""The broker: one noun per file, to be read in this order.

`ring` (the messages), `compaction` (which keys are inside a window), `topic_controller` (a topic: both of them,
and retention), `topic_registry` (all topics), `subscription` (one reader's place), `subscription_manager` (one
client's conversation), `broker` (what all connections share), `connection` (one socket), `server` (all of them).
Beside the path: `clock`, `settings`, `describe`, `journal` (a topic that tells of another), and what keeps trouble
small: `budget` (bytes of all topics together), `deadlines` (who takes too long), `foreign` (who is wrong here).

Everything up to `subscription_manager` is synchronous: no I/O, no clock of its own, no `await`.
"""
