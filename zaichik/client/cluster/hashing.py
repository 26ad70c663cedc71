"""Which shard a topic belongs to: a hash of its name, so nobody has to be asked.

The hash is a part of the cluster's format. It must be the same in every program and in every
version, or a topic would be looked for where it is not.
"""

# Not compiled: its time is spent in the hash, which is C.

from hashlib import blake2b

DIGEST_BYTES = 8
# Topics that lie where another one does, whose name follows: its journal, and how far it was
# replicated. A broker writes the one, and a bridge that serves one broker the other.
BESIDE = ("$journal/", "replicated/")


def shard_of(topic: str, shards: int) -> int:
    """Returns the number of the shard that a topic belongs to: 0 to `shards` - 1.

    Args:
        topic: its name.
        shards: how many shards the cluster has.
    """
    name = _hashed_name(topic).encode("utf-8", "surrogatepass")
    digest = blake2b(name, digest_size=DIGEST_BYTES).digest()
    return int.from_bytes(digest, "big") % shards


def _hashed_name(topic: str) -> str:
    """Returns the name that is hashed: that of the topic beside which this one lies, or its own."""
    for prefix in BESIDE:
        if topic.startswith(prefix) and topic != prefix:
            return _hashed_name(topic.removeprefix(prefix))
    return topic
