"""Why a bridge ends: one sentence for people, with what to do."""


class CannotReplicate(Exception):
    """The topic is not replicated any further; the message says why, and what to do."""


class Replaced(CannotReplicate):
    """Another bridge has taken this one's place: there is one at a time.

    So this one must not be started again by itself.
    """


class ProducerLost(Exception):
    """Kafka knows this producer no more: a new one has to look where to go on.

    Inside only. That is no reason to end: Kafka gives up a transaction that takes too long.
    """


class Stopped(Exception):
    """It was asked to stop while it waited. Inside only."""
