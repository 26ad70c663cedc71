"""The nodes of a cluster: each runs shards, which are unchanged brokers, and says where all are.

| file | idea |
| --- | --- |
| `engine` | what the nodes of a cluster agree through: six calls, and what they may raise |
| `zookeeper` | those six calls at ZooKeeper, by kazoo; the one file that knows it |
| `alone` | the same six calls on a file, for a cluster of one machine |
| `records` | what is written there: features, who is present, where a shard is placed |
| `coordinator` | decides everything, one event at a time: what is claimed, served, published |
| `hosting` | keeps the brokers of a node's shards running, and publishes the map to each |
| `broker_process` | one broker, as a process that ends with the node |
| `folder` | a node's folder: the lock, its identity, what was known last |
| `node` | all of it together, from start to stop |
| `looking` | what a cluster looks like from outside: where shards are, which topics are misplaced |
| `restoring` | a shard whose machine is lost is placed on this one |

`coordinator` neither waits for time nor starts anything: it can be run in a simulation.
"""
