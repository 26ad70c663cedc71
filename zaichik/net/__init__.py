"""Sockets: listening, reading and writing bytes, tasks in the background. Client and broker share it."""
