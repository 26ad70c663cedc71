"""Exercise 0.1: read a frame by hand."""

LENGTH = 16
TYPE = 0x87
REQUEST = 266
VALUE = 1000
