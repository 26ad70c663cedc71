"""The client library.

The files, from what a program calls down to the socket:

| file | idea |
| --- | --- |
| `client` | what a program calls |
| `publishing` | all publishing: the messages of many tasks, and the batches of each topic |
| `coalescing`, `producer` | the batches: messages of many tasks, messages of a stream |
| `sequencer` | batches have numbers, so that they can be sent again; back-pressure |
| `subscription`, `inbox` | reading, committing at the right moments, resuming after a loss |
| `receiver` | what an inbox is to its connection: it gets events, and is made again after a loss |
| `patterns/` | one subscription to all topics of a kind |
| `work/` | shared names: one of several workers, who settle each message by itself |
| `replication/` | publishes and subscriptions that wait until messages are in Kafka, too |
| `epochs` | whether topics are still the same after a reconnection, and creating them again |
| `opening`, `connection` | requests and their replies, and what to send again over a new socket |
| `transport`, `heartbeat` | the current socket: reading, writing, replacing it when it is lost |

This is the walk of one `await client.publish("orders", payload)`, through five objects:

1. `Client.publish` converts key and payload.
2. `Publishing.publish` puts the message into a `CoalescedBatch`, and waits for the batch's outcome.
   `Publishing.post` gives the batch to the sequencer of its topic. (The first time, `Epochs` asks
   for the topic's epoch.)
3. `Sequencer.post` numbers the batch, or keeps it while the topic is full.
4. `BrokerConnection.post` keeps the request until its reply has come.
5. `Transport.send_now` encodes it and sends it.

The reply comes back the same way: `Transport` decodes it, `BrokerConnection.take` finds the request
that it answers, `Sequencer` forgets the batch or retries it, and `CoalescedBatch.settle` wakes the
tasks that wait.

Beside them `messages` (what is returned), `errors` (what is raised), `questions` and `reports`
(what a broker tells about itself), `outcome`, `backoff`, and `forking` (what a forked process must
not use).

A broker is believed as far as it can be: what it sends must be in its place. `inbox` checks events,
`connection` replies, and `reports` what it tells in JSON. Anything else ends the connection, or is
an error, because a wrong count in silence is worse than none.

A connection that is lost is replaced behind all of this, by `transport`. What had no reply is sent
again, in order, by `connection`: nothing is stored twice, because `sequencer` has numbered the
batches. Subscriptions are made again by `inbox`, where they were. If there is no connection for a
while (`reconnect`), or the broker refuses another one, everything that waits fails with
`ConnectionLost`.

A program may notice two things. Topics live in the broker's memory, unless they are durable: if it
was restarted, they are created again with the settings the program gave them, but what they held is
gone. The client reports that (`Client.lost_topics`) or, if asked to, makes publishing fail;
subscriptions end with `EpochChanged`. And `create_topic` may report `created=False` for a topic
that the same call had created, just before the connection was lost.
"""
