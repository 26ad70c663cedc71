"""One file per broker, and `peer`, the interface that a scenario uses."""
