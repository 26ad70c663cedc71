"""What gateways share: a connection to the broker for each user, and shares of what they hold.

A gateway passes its clients' logins on to the broker, over a connection for each user. So rules,
shares and refusals are the broker's. How a login is sent is each gateway's own protocol; what
happens to it then is here.

| file | idea |
| --- | --- |
| `credentials` | a name and a password, or a token in either place |
| `failures` | failed logins are limited here before the broker limits the gateway |
| `connections` | the connections: opened once, shared, kept for a while, replaced |
| `shares` | places and memory of which no user can take all |

It is no app of its own: gateways import it.
"""
