"""The newest offset of each key: a dictionary that grows in small steps.

A Python dictionary that is full moves all of its entries into a larger one, which takes 80 ms for a
million keys, and nothing else happens meanwhile. So there are many dictionaries, and each key
belongs to one, by its hash. They fill up at different moments, and moving one takes a tenth of a
millisecond. A small table has one dictionary only: hundreds of empty ones would cost more than the
table.
"""

from collections.abc import Iterable

MANY_KEYS = 8192  # with more of them there are many dictionaries: dividing them takes a millisecond
SHARDS = 256  # a power of two


class KeyIndex:
    """The newest offset of each key.

    Attributes:
        key_bytes: bytes of all keys.
    """

    def __init__(self) -> None:
        self.key_bytes = 0
        self._count = 0
        self._mask = 0
        self._shards: list[dict[bytes, int]] = [{}]

    def __len__(self) -> int:
        """Returns how many keys there are."""
        return self._count

    def get(self, key: bytes) -> int:
        """Returns the offset of a key; -1 if it is not there."""
        return self._shards[hash(key) & self._mask].get(key, -1)

    @classmethod
    def of(cls, offsets: dict[bytes, int]) -> "KeyIndex":
        """Returns an index of these keys. It may keep the dictionary."""
        index = cls()
        index.key_bytes = sum(map(len, offsets))
        index._count = len(offsets)
        index._shards = [offsets]
        if len(offsets) > MANY_KEYS:
            index._divide()
        return index

    def find(self, keys: Iterable[bytes], least: int) -> list[int]:
        """Returns the offsets of those keys that have one of at least that, in their order."""
        shards = self._shards
        mask = self._mask
        if not mask:
            offsets = map(shards[0].get, keys)
            return [offset for offset in offsets if offset is not None and offset >= least]
        found: list[int] = []
        for key in keys:
            offset = shards[hash(key) & mask].get(key)
            if offset is not None and offset >= least:
                found.append(offset)
        return found

    def update(self, offsets: dict[bytes, int], base: int) -> None:
        """Give these keys their offsets, which are counted from `base`."""
        shards = self._shards
        mask = self._mask
        added: list[bytes] = []
        for key, offset in offsets.items():
            shard = shards[hash(key) & mask]
            if key not in shard:
                added.append(key)
            shard[key] = base + offset
        self._count += len(added)
        self.key_bytes += sum(map(len, added))
        if self._count > MANY_KEYS and not mask:
            self._divide()

    def discard(self, key: bytes, offset: int) -> None:
        """Remove a key, if it still has that offset."""
        shard = self._shards[hash(key) & self._mask]
        if shard.get(key, -1) == offset:
            del shard[key]
            self._count -= 1
            self.key_bytes -= len(key)
            if not shard:
                # Otherwise it keeps the room for all keys that it ever had.
                shard.clear()

    def _divide(self) -> None:
        """Move the keys of the only dictionary into many."""
        whole = self._shards[0]
        self._mask = SHARDS - 1
        shards: list[dict[bytes, int]] = [{} for _ in range(SHARDS)]
        for key, offset in whole.items():
            shards[hash(key) & self._mask][key] = offset
        self._shards = shards
