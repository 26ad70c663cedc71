"""A gateway to the broker for clients of the original zaichik, which was written in Rust in 2020.

To the broker, the gateway is a client like any other; to the original's clients, it is the original's server.

| file | idea |
| --- | --- |
| `frames` | the original's six commands, and how they are encoded |
| `session` | one connection: commands are carried out by our client, messages are delivered one per Commit |
| `gateway` | accepting connections, and the limits on them |

The story, and what the gateway does differently from the original: `docs/legacy.md`.
"""
