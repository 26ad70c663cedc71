"""What a client may send us and ask for. Our Welcome tells it."""

MAX_FRAME = 1_179_648  # a batch of 1 MiB, and what goes around it
MAX_FIRST_FRAME = 4096  # before its Hello, a stranger gets little memory
MAX_MESSAGE = 1_048_576  # bytes of all keys and payloads of a batch
MAX_BATCH = 8192  # messages
MAX_KEY = 1024  # bytes
MAX_CREDIT = 1_000_000  # messages on their way to one reader

ENOUGH = 65_536  # bytes of messages that we take from topics in one go
MAX_REPLIES = 131_072  # bytes; above this we read no more requests
