"""A client for programs without an event loop: the asynchronous client with two drivers.

    with blocking.connect() as client, client.subscribe("orders", start=0, until=1000) as orders:
        for message in orders:
            print(message.offset, message.payload)

A lone request is driven by the thread that calls, which sends it and reads the reply itself.
Everything else is driven by an event loop in a thread of its own.

The files, from what a program calls down to the threads:

| file | idea |
| --- | --- |
| `client` | what a program calls: the methods of `zaichik.Client`, as functions that wait |
| `cluster` | the same for all topics of a cluster |
| `subscription` | everything that has arrived crosses to the program at once |
| `pattern_subscription` | the same for all topics that match: a round of them crosses at once |
| `work_subscription` | messages of a shared name come one by one, when a thread asks for one |
| `producer` | messages gather until the thread comes to them |
| `driver` | lone requests, driven by the thread that calls; and who reads the socket |
| `interrupts` | signals wait while the client's state is half changed |
| `thread` | calls from the program's thread into the event loop, and how Ctrl-C ends them |
| `baton` | the program's threads and the event loop run the client's code by turns |

Names, arguments, results and errors are those of the asynchronous client, and so are its promises:
a lost connection is replaced, publishes are numbered and stored once, subscriptions resume. A
program may work on a message for as long as it likes: a tenth of a second after its last request,
the event loop reads the socket again, and keeps the heartbeat at all times. So the broker never
waits for its socket to be read (LAG-3).

A lone request costs as much as it costs the asynchronous client, or little more. A call into the
event loop and back takes about as long as a hundred messages do. That is why messages cross in
batches.
"""

from zaichik.client.blocking.client import Client, connect
from zaichik.client.blocking.cluster import Cluster, cluster
from zaichik.client.blocking.pattern_subscription import PatternSubscription
from zaichik.client.blocking.producer import Producer
from zaichik.client.blocking.subscription import Subscription
from zaichik.client.blocking.work_subscription import WorkMessage, WorkSubscription

__all__ = [
    "Client",
    "Cluster",
    "PatternSubscription",
    "Producer",
    "Subscription",
    "WorkMessage",
    "WorkSubscription",
    "cluster",
    "connect",
]
