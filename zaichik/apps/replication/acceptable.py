"""What a bridge refuses by name, and can be told by name to put up with."""

# Of a topic of Kafka, by Kafka's names: see `destination`.
SETTINGS = (
    "cleanup.policy",
    "max.message.bytes",
    "min.insync.replicas",
    "retention.bytes",
    "retention.ms",
    "unclean.leader.election.enable",
)
# The topic of Kafka has records that no bridge has written.
FOREIGN = "records"
# The name at the broker is ahead of Kafka: messages between them may be gone from both.
POSITION = "position"

ACCEPTABLE = (*SETTINGS, FOREIGN, POSITION)
