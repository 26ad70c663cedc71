"""Replication to Kafka: each message of a topic is a record of a topic of Kafka, exactly once.

The broker is one machine with one copy; Kafka has the others. What is in Kafka says where to go on,
so neither the broker nor the bridge has to remember anything:

| file | idea |
| --- | --- |
| `address` | where Kafka is, and which of its topics |
| `options` | more settings of Kafka's client, in a file |
| `acceptable` | what is refused by name, and can be accepted by name |
| `record` | a message as a record of Kafka, and back |
| `gaps` | offsets that have no message, because the broker had lost it before it could be read |
| `servers` | Kafka's clients: how they are made, and waiting for a Kafka that is away |
| `destination` | the topic of Kafka: is made, or checked for what would lose or stop messages |
| `position` | where to go on: the last committed record, read backwards from the end |
| `transactions` | rounds of records that Kafka has all or none of, and one writer at a time |
| `source` | the broker's side: the topic, the name that keeps its place, the watermark |
| `round` | what was read at once, as the records of one transaction |
| `bridge` | the loop: read, write, commit, and publish how far Kafka has it |
| `errors` | why a bridge ends |

A topic of Kafka that was written like this has all that is needed to make the topic again.
"""
