"""zaichik: a tiny message broker to read in an afternoon and run for real."""
