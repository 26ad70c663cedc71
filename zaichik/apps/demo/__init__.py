"""What the demo and the examples publish: real departures."""
