"""The flight recorder: all that a broker was told, in the order in which it was told, and a broker that lives it again.

The broker is synchronous and deterministic: what it answers follows from the calls it gets, in their order, and from
the readings of the clock that are their arguments. So a recording is the calls. Of the answers, it has checksums.
"""
