"""HTTP for programs: `curl` publishes and reads, `EventSource` resumes where it was.

| file | idea |
| --- | --- |
| `front` | the addresses, who asks, and every error as JSON |
| `addresses` | what a path and a query name, byte by byte |
| `bodies` | bodies of a bounded size, and all of them together in bounded memory |
| `lines` | messages as JSON, and back |
| `publishing` | a body becomes a message, or a batch |
| `idempotency` | the answers to the last keys, so that a retry is safe |
| `places` | what lasts has so many places, and one user cannot take all |
| `positions` | ids of events: `EPOCH-OFFSET` |
| `forms` | the two ways of writing a stream: events and lines |
| `reading` | a stream: what is sent, and when it ends |
| `settling` | positions of names, which only the client moves |
| `link` | one connection to the broker for each user |
| `counts` | what is counted for metrics |
| `statuses` | the status of every error, in one table |

What a client may send, and what it gets, is in `docs/use/http.md`.
"""
