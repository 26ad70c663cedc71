"""Sockets: listening, reading and writing bytes, in TLS or plain; and tasks in the background. For client and broker."""
