"""Looking at the broker: its state as JSON, a page at a time. Nothing here changes anything."""
