"""What gateways share: one connection to the broker for each user who has logged in.

A gateway passes its clients' logins on to the broker, over a connection for each user. So rules,
shares and refusals are the broker's. How a login is sent is each gateway's own protocol; what
happens to it then is here.

| file | idea |
| --- | --- |
| `credentials` | a name and a password, or a token in either place |
| `failures` | failed logins are limited here before the broker limits the gateway |
| `connections` | the connections: opened once, shared, kept for a while, replaced |

It is no app of its own: gateways import it.
"""
