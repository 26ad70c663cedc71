"""The core of the broker: one noun per file. The broker has four rooms, to be read in this order (75 minutes).

1. `zaichik.broker`, the core (50): `ring` (the messages), `compaction` (which keys are inside a window), `position`
   (positions that outlive their readers), `topic_controller` (a topic: a ring, a window and retention),
   `topic_registry` (all topics), `reader` (one reader's cursor and credit), `producers` (retries are stored
   once), `replies` and `subscription_manager` (the requests of one connection), `broker` (what connections share).
   Beside the path: `clock`, `settings`, `checks`, `state`, `journal`.
2. `zaichik.serving`, the sockets (10): `server` (the listener), `connection` (one socket), `greeting`, `foreign` (other
   protocols), `deadlines` (timeouts).
3. `zaichik.sharing`, fairness between clients (10): `scheduler` (fair queueing of processor time), `prices` (bytes of
   memory), `budget` (memory of all topics), `quota` (shares of every other table).
4. `zaichik.observing`, the state as JSON (5): `directory`, `rows`, `describe`.

All but `serving` is synchronous: no I/O, no clock of its own, no `await`.
"""
