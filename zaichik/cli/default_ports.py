"""Where commands that serve listen unless they are told otherwise."""

WEB = 8080
LEGACY = 8890  # one more than the broker's, which may be on the same machine
CLUSTER = 8900  # of shard 0; shard N has this and N more, clear of the ports above
# Those that the protocols' own programs expect.
MQTT = 1883
KAFKA = 9092
GRPC = 50051
