"""Sockets: listening, reading and writing bytes; and tasks in the background. Client and broker share it."""
