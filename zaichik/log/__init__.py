"""Durable topics: each has a log on disk, whose end is the ring in memory. `docs/durability.md` explains it."""
