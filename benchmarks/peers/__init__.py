"""One file per broker, and `peer`, what a scenario asks of each of them."""
