"""A gateway to the broker for clients of MQTT, versions 3.1.1 and 5.

To the broker, the gateway is a client like any other; to MQTT's clients, it is a server.

| file | idea |
| --- | --- |
| `packets` | MQTT's packets as values: bytes in, packets out, and back |
| `filters` | which of many filters match a topic |
| `spaces` | MQTT's topics are keys: where a message is stored |
| `forwarding` | the properties of version 5 that travel with a message |
| `publisher`, `publications` | storing what clients publish; what is remembered of it |
| `subscription`, `tail`, `reading` | each topic is read once, for all who have filters |
| `session`, `window` | what outlives a connection; what is in flight to a client |
| `delivery`, `output` | what one client is sent, and when |
| `aliases` | numbers that stand for topics, towards one client |
| `groups` | shared subscriptions |
| `retained`, `wills`, `sessions`, `session_table` | the state that is kept in tables |
| `keeper`, `topics` | what the broker keeps for sessions; the topics, made and read |
| `logins` | what a client acts as, and what users may do |
| `state` | all of that together, and what happens once a second |
| `connection` | one connection: bytes, deadlines, and how it ends |
| `opening`, `conversation`, `subscribing` | CONNECT; each packet after it; SUBSCRIBE |
| `quota` | what the filters of a session may take |
| `gateway` | accepting connections |
| `upgrade`, `websocket`, `origins` | browsers: a request becomes a stream; which pages may do so |
| `counters`, `ending` | what was not delivered; why a connection is ended |

To begin with, read `conversation`, `tail` and `delivery`. What is different from other servers of
MQTT: `docs/use/mqtt.md`.
"""
