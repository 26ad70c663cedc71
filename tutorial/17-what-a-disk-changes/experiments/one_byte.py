"""Change one byte in the files of a broker, as a tired disk may do."""

import sys
from pathlib import Path

for path in Path(sys.argv[1]).glob("topics/*/*.log"):
    data = bytearray(path.read_bytes())
    at = data.index(b"two apples")
    data[at] ^= 1
    path.write_bytes(data)
    print(bytes(data[at : at + 10]).decode(), "at byte", at)
