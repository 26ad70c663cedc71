"""A client for programs without an event loop: the asynchronous client, run by a thread of its own.

    with blocking.connect() as client, client.subscribe("orders", start=0, until=1000) as orders:
        for message in orders:
            print(message.offset, message.payload)

The files, from what a program calls down to the thread:

| file | idea |
| --- | --- |
| `client` | what a program calls: the methods of `zaichik.Client`, as functions that wait |
| `subscription` | everything that has arrived crosses to the program at once |
| `producer` | messages gather until the thread comes to them |
| `thread` | calls from the program's thread into the event loop, and how Ctrl-C ends them |

Names, arguments, results and errors are those of the asynchronous client, and so are its promises: a lost connection is
replaced, publishes are numbered and stored once, subscriptions resume. The thread reads the socket at all times, so a
program may work on a message for as long as it likes: the broker never waits for its socket to be read (LAG-3).

A call into the thread and back takes about as long as a hundred messages do. That is why messages cross in batches.
"""

from zaichik.blocking.client import Client, connect
from zaichik.blocking.producer import Producer
from zaichik.blocking.subscription import Subscription

__all__ = ["Client", "Producer", "Subscription", "connect"]
