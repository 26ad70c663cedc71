"""Fairness between clients: of processor time, of memory and of places.

Processor time is shared by `scheduler`, memory by `prices` and `budget`, places (of connections,
topics, names and producers) by `quota`.
"""
