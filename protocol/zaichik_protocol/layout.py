"""The types of fields that frames are declared with, in construct; and the header and the batch, which frames share.

Four traps of construct that shape the declaration:

* Compiled parsers accept truncated input. These are interpreted.
* Bytes left over after a Struct pass unnoticed, unless the Struct ends in `Terminated`.
* `PascalString` decodes while it parses, so that bad UTF-8 would look like a bad frame. Strings stay bytes
  here (`TEXT`); the codec decodes them and can say which *field* is wrong.
* A `Switch` without a match silently yields None. The codec looks types up in a dict instead.
"""

from construct import (
    Array,
    Bytes,
    Const,
    ConstructError,
    GreedyBytes,
    If,
    Int8ul,
    Int16ul,
    Int32sl,
    Int32ul,
    Int64sl,
    Int64ul,
    Prefixed,
    PrefixedArray,
    Renamed,
    Struct,
    Terminated,
    this,
)

MAGIC = Const(b"ZAIK")
U8, U16, U32, U64, I64 = Int8ul, Int16ul, Int32ul, Int64ul, Int64sl
TEXT = Prefixed(Int16ul, GreedyBytes)
SETTINGS = PrefixedArray(Int8ul, Struct("setting" / Int8ul, "value" / Int64ul))
OWNED_U32, OWNED_U64 = (If(this._params.owned, kind) for kind in (Int32ul, Int64ul))  # noqa: SLF001 (as next)
DELTAS = If(this._params.holes, PrefixedArray(Int32ul, Int32ul))  # noqa: SLF001 (so construct names what parse was told)
REST = GreedyBytes
BATCH = Renamed(GreedyBytes)  # checked by batch.Batch, so that a bad batch is a bad field and not a bad frame

HEADER = Struct(
    "length" / Int32ul * "bytes that follow this field: 8 + the body's",
    "type" / Int8ul * "which frame this is",
    "flags" / Int8ul * "bits whose meaning the type defines; all others 0",
    "zero" / Int16ul * "always 0",
    "id" / Int32ul * "of the request, in requests and replies; of the subscription, in events",
)
LENGTH_SIZE = 4
HEADER_SIZE = HEADER.sizeof()
MIN_LENGTH = HEADER_SIZE - LENGTH_SIZE

# The columns inside a `batch` field. The codec does not use it (batch.py reads the same bytes with two calls of
# the struct module); it documents them. It knows lengths only: batch.py checks the values of the offsets.
BATCH_COLUMNS = Struct(
    "count" / Int32ul * "messages, at least 1",
    "key_offsets" / Array(this.count + 1, Int32sl) * "message i's key is key bytes [i] … [i + 1]; empty: no key",
    "payload_offsets" / Array(this.count + 1, Int32sl) * "message i's payload is payload bytes [i] … [i + 1]",
    "key_bytes" / Bytes(lambda known: known.key_offsets[-1]) * "all keys, end to end",
    "payload_bytes" / Bytes(lambda known: known.payload_offsets[-1]) * "all payloads, end to end",
    Terminated,
)


def reason(error: ConstructError) -> str:
    """Returns what construct says, without the path of its parser, which is on the line before."""
    return str(error).rpartition("\n")[2]
