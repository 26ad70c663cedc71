"""A gateway to the broker for clients of Kafka: librdkafka, Java's, and whatever is made of them.

To the broker, the gateway is a client like any other; to Kafka's clients, it is a cluster of one
broker, in which each topic has one partition. It is experimental.

| file | idea |
| --- | --- |
| `codes` | Kafka's error codes, and which refusals of the broker become which |
| `names` | which topics can be named |
| `compression`, `records` | batches of Kafka's records, from and to keys and payloads |
| `producers` | the last batches of idempotent producers |
| `answers`, `groups` | a consumer group, without I/O |
| `coordinator` | all groups, where requests wait |
| `positions` | the positions of groups, rows of a table |
| `topics` | topics that Kafka's clients make |
| `readings` | the subscriptions behind fetches |
| `memory` | what all connections hold together |
| `session` | what handlers work with |
| `discovery`, `produce`, `fetch`, `membership`, `commits`, `admin` | handlers, a family each |
| `requests` | which requests are offered, in which versions |
| `frames`, `oversized` | requests and responses as bytes; what is too large |
| `logins` | SASL/PLAIN, which the broker judges |
| `connection` | one connection: a request after the other |
| `gateway` | accepting connections, and the limits on them |

What it is not, and what is different from Kafka: `docs/use/kafka.md`.
"""
