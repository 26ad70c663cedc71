"""Everything that is a client of the broker.

An app is a folder, or a file. It imports what any program of yours could: `zaichik`, the modules of
`zaichik.client`, and `zaichik_protocol`. It may also import `zaichik.base`, which is for everybody.
What an app needs beyond that is here, with the reason:

| app | imports | because |
| --- | --- | --- |
| `audit`, `demo`, `views`, `work` | nothing | |
| `watch` | `apps.views` | what was polled is shown safely, and with what it lacks |
| `recording` | nothing | |
| `statistics` | `apps.recording` | recordings are one of its sources |
| `replication` | `core.settings`, `storage` | a restore writes a topic where no broker runs |
| `spark` | `apps.recording`, `apps.statistics` | the same columns, and the same numbers |
| `spark` | `net.tls_settings` | to name the option of a certificate that cannot be used |
| `cluster` | `net.background` | brokers end with it, and exceptions stay as they are |
| `web` | `apps.gateways` | names what lost clients speak |
| `web` | `apps.views`, `apps.watch` | the pictures, and the polling that stays polite |
| `web` | `apps.users` | places for streams, of which no user can take all |
| `web` | `net.background` | tasks that end with a block and leave its exceptions as they are |
| `web` | `server.access` | failed logins are limited by the same token bucket as the broker's |
| `web` | `zaichik.running_broker` | every scene of the stage has a broker of its own |
| `users` | `net.peers` | who counts as one address, as the broker has it |
| `users` | `server.access` | failed logins are limited by the same token bucket as the broker's |
| `gateways` | `net` | clients come over TLS or not |
| `gateways` | `server.foreign` | names what lost clients speak, as the broker does |
| `legacy` | `net` | a gateway is a server as well: it listens, and reads its clients' sockets |
| `grpc` | `net.background` | tasks that end with a block and leave its exceptions as they are |
| `grpc` | `net.peers` | whose calls are many, as the broker has it |
| `grpc`, `kafka`, `mqtt` | `apps.gateways` | one of a kind at a broker, TLS, what is counted |
| `grpc` | `apps.users` | one connection to the broker for each user |
| `kafka` | `net` | a gateway is a server as well, over TLS or not |
| `kafka` | `net.background` | the connections of users end with the gateway |
| `kafka` | `apps.users` | one connection to the broker for each user |
| `mqtt` | `net` | the same; and it speaks TLS, as the broker does |
| `mqtt` | `apps.users` | one connection to the broker for each user |
| `mqtt` | `apps.web.names` | names in a browser's handshake are written as for the page |
| `flight` | `core`, `storage` | it records a broker from inside, and is no client |

Apps import each other in one direction only. A test compares the imports with the same table in
`tests/app_imports.py`.
"""
