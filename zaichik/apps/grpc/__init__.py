"""A gateway to the broker for clients that speak gRPC, in whatever language.

To the broker, the gateway is a client like any other; to its own clients, it is the service that
`broker.proto` declares. Flow control, cancellation and deadlines are gRPC's.

| file | idea |
| --- | --- |
| `broker.proto` | the service, field by field, for those who write its clients |
| `statuses` | which gRPC status each of the broker's codes becomes |
| `topic_settings` | a topic's settings, as that service and as our client have them |
| `logins` | whose call it is, by its metadata |
| `service` | the five calls: our client carries them out |
| `unasked` | health and reflection, which need no login |
| `gateway` | the server: where it listens, its limits, health and reflection |

`broker_pb2` and `broker_pb2_grpc` are generated from `broker.proto`, by `make docs`. They are part
of the repository, and not made by installing: so an installation needs no compiler, an editable one
has them, too, and a test compares them with what the compiler makes.

gRPC's own library for Python runs on asyncio only, and so does this gateway.
"""
