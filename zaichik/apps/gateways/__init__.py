"""What gateways share besides their users: what can be counted, and that there is one of a kind.

| file | idea |
| --- | --- |
| `claim` | one gateway of a kind at a broker, because two would undo each other's work |
| `strangers` | clients that speak something else, as TLS where there is none |
| `traffic` | what went over the connections: of each, and of all together |
| `metrics` | the same for Prometheus |

It is no app of its own: gateways import it.
"""
