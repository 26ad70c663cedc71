"""Sockets: listening, reading and writing bytes, TLS over them; and tasks in the background. Client and broker share it."""
