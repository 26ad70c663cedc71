"""What each app imports beyond a client's public names, and why.

`zaichik/apps/__init__.py` has the same table for readers. Every app may import `zaichik` (its
client's names, and `blocking`), `zaichik.client`, `zaichik.base`, `zaichik_protocol`, and itself.
A prefix stands for all modules below it.
"""

# App: prefix of what it imports: reason.
BEYOND: dict[str, dict[str, str]] = {
    "audit": {},
    "cluster": {
        "zaichik.net.background": "brokers end with it, and exceptions stay as they are",
    },
    "demo": {},
    "flight": {
        "zaichik.core": "it records a broker from inside, and is no client",
        "zaichik.storage": "so are the logs of its durable topics",
    },
    "gateways": {
        "zaichik.net.stream": "a client may be connected over TLS or not",
        "zaichik.net.tls_engine": "says why TLS failed",
        "zaichik.net.tls_handshake": "clients may come over TLS",
        "zaichik.server.foreign": "names what lost clients speak, as the broker does",
    },
    "grpc": {
        "zaichik.apps.gateways": "what is counted, as in other gateways",
        "zaichik.apps.users": "one connection to the broker for each user",
        "zaichik.net.background": "its tasks end with a block, and leave exceptions as they are",
        "zaichik.net.peers": "whose calls are many, as the broker has it",
    },
    "kafka": {
        "zaichik.apps.gateways": "one of a kind at a broker, TLS, what is counted",
        "zaichik.apps.users": "one connection to the broker for each user",
        "zaichik.net.background": "connections of users end with it, a watch with its request",
        "zaichik.net.listener": "a gateway is a server as well",
        "zaichik.net.peers": "whose connections are many, as the broker has it",
        "zaichik.net.served": "so many connections at a time",
        "zaichik.net.socket_stream": "it reads and writes its clients' sockets",
        "zaichik.net.stream": "with TLS or without",
    },
    "legacy": {
        "zaichik.net.background": "its tasks end with the connection",
        "zaichik.net.listener": "a gateway is a server as well",
        "zaichik.net.served": "so many connections at a time",
        "zaichik.net.socket_stream": "it reads and writes its clients' sockets",
    },
    "mqtt": {
        "zaichik.apps.gateways": "one of a kind at a broker, TLS, what is counted",
        "zaichik.apps.users": "one connection to the broker for each user",
        "zaichik.apps.web.names": "names in a browser's handshake are written as for the page",
        "zaichik.net.background": "its tasks end with the connection",
        "zaichik.net.listener": "a gateway is a server as well",
        "zaichik.net.served": "so many connections at a time",
        "zaichik.net.socket_stream": "it reads and writes its clients' sockets",
        "zaichik.net.stream": "a client may be connected over TLS or not",
    },
    "recording": {},
    "replication": {
        "zaichik.core.settings": "a restored topic has the settings that a broker would give it",
        "zaichik.storage": "a restore writes a folder of durable topics, where no broker runs",
    },
    "spark": {
        "zaichik.apps.recording": "topics have the same columns in files and in tables",
        "zaichik.apps.statistics": "the same numbers, from a cluster",
        "zaichik.net.tls_settings": "names the option of a certificate that cannot be used",
    },
    "statistics": {
        "zaichik.apps.recording": "recordings are one of its sources",
    },
    "users": {
        "zaichik.net.peers": "who counts as one address, as the broker has it",
        "zaichik.server.access.backoff": "failed logins are limited by the broker's token bucket",
    },
    "views": {},
    "watch": {
        "zaichik.apps.views": "what was polled is shown safely, and with what it lacks",
    },
    "web": {
        "zaichik.apps.gateways.strangers": "names what lost clients speak",
        "zaichik.apps.users": "places for streams, of which no user can take all",
        "zaichik.apps.views": "the pictures",
        "zaichik.apps.watch": "the polling, which stays polite",
        "zaichik.net.background": "its tasks end with the page, and leave exceptions as they are",
        "zaichik.running_broker": "every scene of the stage has a broker of its own",
        "zaichik.server.access.backoff": "failed logins are limited by the broker's token bucket",
    },
    "work": {},
}
