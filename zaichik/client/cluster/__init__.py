"""Several brokers that share the topics between them: which has a topic, and where it is now.

A *shard* is a broker with a folder of its own. A topic belongs to the shard that its name's hash
says, for ever; shards are placed on machines, and may be placed elsewhere. A broker knows nothing
of this: the map of the cluster is a message in a topic, and whoever reads it asks the right broker.

| file | idea |
| --- | --- |
| `hashing` | the shard that a topic belongs to |
| `map` | where the shards are, as the one message of the topic `cluster` of each of them |
"""
