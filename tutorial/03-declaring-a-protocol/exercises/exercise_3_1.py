"""Exercise 3.1: declare a Commit.

Its body has two fields: `subscription`, 4 bytes, and `next`, 8 bytes, both unsigned and little-endian.
"""

from construct import Struct

COMMIT = Struct()
