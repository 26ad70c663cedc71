"""A Ping has 8 bytes. What is said to 7, to 8, and to 9?

Run it after "Type: the declaration".
"""

from construct import ConstructError, Int64ul, Struct
from layouts import PING

CARELESS = Struct("value" / Int64ul)  # a Ping as one would write it first

for name, layout in (("careless", CARELESS), ("yours", PING)):
    for size in (7, 8, 9):
        try:
            layout.parse(bytes(size))
        except ConstructError as error:
            print(f"{name}, {size} bytes: refused, {type(error).__name__}")
        else:
            print(f"{name}, {size} bytes: accepted")
