"""The flight recorder: every call that a broker gets is recorded, and another broker can repeat it.

The broker is synchronous and deterministic: what it sends follows from the calls it gets, in their
order, and from the readings of the clock that are their arguments. So a recording is the calls, and
checksums of what was sent.
"""
