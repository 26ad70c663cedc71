"""Sockets: listening, reading and writing bytes, TLS; and tasks in the background.

Client and broker share it.
"""
