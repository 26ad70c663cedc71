"""Redis Streams with an append-only file that is synced once a second, the default of append-only
files.
"""

from benchmarks.peers.redis_pubsub import CONFIG
from benchmarks.peers.redis_streams import RedisStreamsPeer


class RedisEverysecPeer(RedisStreamsPeer):
    """The same server, with a file."""

    label = "Redis Streams, appendfsync everysec"
    keeps = "all but the last second or two"
    share = 0.1
    scenarios = frozenset({"publishing"})
    config = CONFIG + "appendonly yes\nappendfsync everysec\n"  # the last line of a name counts


PEER = RedisEverysecPeer()
