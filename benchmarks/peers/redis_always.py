"""Redis Streams with an append-only file that is synced before each answer."""

from benchmarks.peers.redis_pubsub import CONFIG
from benchmarks.peers.redis_streams import RedisStreamsPeer
from benchmarks.peers.zaichik_durable import EVERYTHING


class RedisAlwaysPeer(RedisStreamsPeer):
    """The same server, with a file."""

    label = "Redis Streams, appendfsync always"
    keeps = EVERYTHING
    share = 0.06
    scenarios = frozenset({"publishing", "work"})
    config = CONFIG + "appendonly yes\nappendfsync always\n"  # the last line of a name counts


PEER = RedisAlwaysPeer()
