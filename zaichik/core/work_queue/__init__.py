"""Shared names: a position that several readers have together is a work queue (SHR).

`work_queue` has the whole; read it first. It puts together what became of each offset (`ledger`),
who has what (`worker`), and whose turn it is (`line`). All of it is plain and synchronous, and
knows offsets, keys and tickets, but no topic, frame or socket: times are arguments.

No subscription has one yet: no request can ask for it.
"""
