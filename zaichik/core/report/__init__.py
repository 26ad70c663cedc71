"""The broker's state as JSON, a page at a time."""
