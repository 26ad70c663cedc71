"""A gateway to the broker for clients of MQTT, versions 3.1.1 and 5.

To the broker, the gateway is a client like any other; to MQTT's clients, it is a server.

| file | idea |
| --- | --- |
| `packets` | MQTT's packets as values: bytes in, packets out, and back |
| `filters` | which of many filters match a topic |
"""
