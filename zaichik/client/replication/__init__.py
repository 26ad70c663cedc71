"""Acknowledged after replication: publishes that wait until Kafka has the messages, too (AK-1).

A bridge copies a topic into Kafka, and publishes how far it has come: the watermark, the only
message of the topic `replicated/TOPIC`. The broker knows nothing of this. Who wants to know whether
a message is in Kafka compares its offset with the watermark.

| file | idea |
| --- | --- |
| `watermark` | what that message says, and how it is written |
| `lossless` | which topics can be acknowledged like this |
| `replication` | what a client has: a follower for each topic |
| `follower` | one subscription to the watermark, however many wait for it |
| `acknowledgement` | the messages of one publish, which wait for the watermark |
| `held_inbox` | a subscription that is given nothing above the watermark (AK-2) |

Nothing of this is imported before a program asks for it.
"""
