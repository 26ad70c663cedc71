"""A gateway to the broker for clients of the original zaichik, which was written in Rust in 2020.

To the broker, the gateway is a client like any other; to the original's clients, it is the
original's server.

| file | idea |
| --- | --- |
| `frames` | the original's six commands, and how they are encoded |
| `session` | one connection: our client carries out its commands; a message for each Commit |
| `gateway` | accepting connections, and the limits on them |

The story, and what the gateway does differently from the original: `docs/use/legacy.md`.
"""
