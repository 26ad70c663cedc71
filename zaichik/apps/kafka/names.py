"""Which topics Kafka's clients can name."""

from zaichik.apps.kafka.codes import Code

# Topics of gateways, where whoever could publish would forge the positions of consumer groups.
OWN = "kafka/"
OFFSETS = "kafka/offsets"
# Has no messages: see `gateways.claim`.
CLAIM = "kafka/gateway"

MAX_NAME_BYTES = 200  # the broker's limit


def refusal(name: str | None) -> Code:
    """Returns why clients cannot use a topic of that name; NONE if they can."""
    if not name or len(name.encode()) > MAX_NAME_BYTES or name.startswith("$"):
        return Code.INVALID_TOPIC_EXCEPTION
    if any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in name):
        return Code.INVALID_TOPIC_EXCEPTION
    if name.startswith(OWN):
        return Code.TOPIC_AUTHORIZATION_FAILED
    return Code.NONE
