"""Why a message did not arrive: what the broker knows about one message, as a list of verdicts."""
