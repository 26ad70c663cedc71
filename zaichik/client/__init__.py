"""The client library.

The files, from what a program calls down to the socket:

| file | idea |
| --- | --- |
| `client` | what a program calls |
| `coalescing`, `producer` | messages are coalesced into batches: those of many tasks, those of a stream |
| `sequencer` | batches have numbers, so that they can be sent again; back-pressure of a full topic |
| `subscription`, `inbox` | reading, committing at the right moments, and resuming after a lost connection |
| `epochs` | whether topics are still the same after a reconnection, and creating them again |
| `opening`, `connection` | requests and their replies, and what to send again over a new socket |
| `transport`, `heartbeat` | the current socket: reading, writing, replacing it when it is lost |

Beside them `messages` (what is returned), `errors` (what is raised), `outcome` and `backoff`.

A connection that is lost is replaced behind all of this, by `transport`. What had no reply is sent again, in order, by
`connection`: nothing is stored twice, because `sequencer` has numbered the batches. Subscriptions are made again by
`inbox`, where they were. If there is no connection for a while (`reconnect`), or the broker refuses
another one, everything that waits fails with `ConnectionLost`.

A program may notice two things. Topics live in the broker's memory, unless they are durable: if it was restarted, they
are created again with the settings the program gave them, but what they held is gone. The client reports that
(`Client.lost_topics`) or, if asked to, makes publishing fail; subscriptions end with `EpochChanged`. And `create_topic`
may report `created=False` for a topic that the same call had created, just before the connection was lost.
"""
