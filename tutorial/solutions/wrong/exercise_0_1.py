"""The bytes are read from the left, as people write numbers.

Fails at: the number of the request
"""

LENGTH = 16
TYPE = 0x87
REQUEST = 0x0A010000
VALUE = 0xE803000000000000
