"""Exercise 3.1: declare a Commit."""

from construct import Int32ul, Int64ul, Struct, Terminated

COMMIT = Struct("subscription" / Int32ul, "next" / Int64ul, Terminated)
