"""Durable topics: a log on disk for each, of which the ring in memory is the end. `docs/durability.md` explains it."""
