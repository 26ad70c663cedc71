"""The name of a topic in a message of a pattern, which knows which topic of that name it is.

A topic may be deleted and made again while a program still holds messages of the one before. Their
offsets mean nothing in the new one: to commit them there would settle messages that nobody has
handled. A message has no epoch, because it is a tuple that is made a million times. The name in it
is made once for each subscription, and is where the epoch fits.
"""


class TopicName(str):
    """A topic's name, and its epoch.

    Args:
        name: the name.
        epoch: the topic's identity; 0: that is not known.

    Attributes:
        epoch: see above.
    """

    __slots__ = ("epoch",)

    epoch: int

    def __new__(cls, name: str, epoch: int = 0) -> "TopicName":
        """Returns the name."""
        self = super().__new__(cls, name)
        self.epoch = epoch
        return self


def may_be_of(name: str, epoch: int) -> bool:
    """Returns whether a message with that name may be of the topic that has this epoch.

    A program may have made the message itself, with a name that knows no epoch.
    """
    if isinstance(name, TopicName) and name.epoch:
        return name.epoch == epoch
    return True
