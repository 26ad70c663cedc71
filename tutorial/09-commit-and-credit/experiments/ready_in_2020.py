"""As in 2020: a flag, "ready", instead of a number."""


class ReaderOf2020:
    """Ready for a message, or not."""

    def __init__(self) -> None:
        self.is_ready = True

    def deliver(self) -> bool:
        """Send a message, if the reader is ready for one."""
        was_ready, self.is_ready = self.is_ready, False
        return was_ready

    def commit(self) -> None:
        """Whatever it settles, the reader is ready again."""
        self.is_ready = True


reader = ReaderOf2020()
in_flight = 0
for step in ("deliver", "unsubscribe from all, subscribe", "deliver"):
    if step == "deliver":
        in_flight += reader.deliver()
        print("deliver:", in_flight, "in flight")
    else:
        reader.commit()  # a new subscription began ready
        print(step)
