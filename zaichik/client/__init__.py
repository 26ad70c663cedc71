"""The client library.

A call of the program becomes a request, and a batch of messages becomes a stream of them, on the way down:

| file | idea |
| --- | --- |
| `client` | what a program calls |
| `coalescing`, `producer` | messages are coalesced into batches: those of many tasks, those of a stream |
| `sequencer` | batches have numbers, so that they can be sent again; back-pressure of a full topic |
| `subscription`, `inbox` | reading, committing at the right moments, and going on after a loss |
| `epochs` | whether topics are still those they were, and creating them again |
| `opening`, `connection` | requests and their replies, and what to send again over a new socket |
| `transport`, `heartbeat` | one socket after the other: reading, writing, looking for the next |

Beside them `messages` (what is returned), `errors` (what is raised), `outcome` and `backoff`.

A connection that is lost is replaced behind all of this, by `transport`. What had no reply is sent again, in order, by
`connection`: nothing is stored twice, because `sequencer` has numbered the batches. Subscriptions are made again by
`inbox`, where they were. If there is no connection for a while (`reconnect`), or the broker refuses
another one, everything that waits fails with `ConnectionLost`.

Two things a program may notice. Topics live in the broker's memory: if it was started anew, they are created again with
the settings the program gave them, but what they held is gone. The client reports that (`Client.lost_topics`) or, if
asked to, has publishing fail; subscriptions end with `EpochChanged`. And `create_topic` may say of a topic that it was
there already, although the same call had made it, just before the connection was lost.
"""
