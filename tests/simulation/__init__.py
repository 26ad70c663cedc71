"""The whole broker in a simulated world: a network in memory, a clock that jumps, a scheduler that
follows a seed.

Everything that happens follows from one number, the seed: who connects and what they want, in which
pieces bytes come and how late, who stops reading, whose cable is pulled, which task runs first. So
a fault that shows once in a thousand runs shows every time once its seed is known, and a run can be
read afterwards, line by line. Nobody waits for time to pass, either: when all tasks wait, the clock
jumps to the next thing that happens.

The broker is the real one, from `Server` down. Only the sockets below it and the clock are
replaced. In some worlds our own client lives, too, in the same way; all other clients speak raw
frames. In some of these the broker has durable topics, on a disk in memory; its threads run one at
a time, in an order that follows from the seed; and it has more than one life, because the power is
cut, often in the middle of a write, or because it is stopped and started again. What the books know
of durable topics outlives it.

Reading order: `trace` (what happened), `network` (sockets in memory), `encrypted` (TLS over them),
`topic_ledger`, `session_ledger` and `subscription_ledger` (the promises, as a bookkeeper sees
them), `connection_ledger` (what was asked, said and heard), `turn_ledger` (whose turn came when),
`client`, `publisher`, `reader`, `guests` and `trouble` (the actors), `overheard` and `our_client`
(our own client, and programs that use it), `inspection` (looks inside the broker), `worker` and
`machine` (threads, disk and power), `life` (from a start to a stop, or a power cut), `world`,
`lives` (what happens to the broker), `scenario`. (The ledger of `tests/chaos` is a smaller one: of
what clients alone can know.)
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "storage"))  # `sim_disk`
