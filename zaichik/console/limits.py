"""The table of a broker's limits and of the settings its topics have unless they name their own."""

from typing import Any

from rich.table import Table
from rich.text import Text

from zaichik.console import screen, topic_settings


def table(limits: dict[str, Any], topic_defaults: dict[str, int]) -> Table:
    """Both, side by side, so that they fit on a screen together with what follows."""
    both = Table.grid(padding=(0, 6))
    both.add_row(Text("limits", "bold"), Text("topics, by default", "bold"))
    both.add_row(
        screen.rows([(name, screen.setting(name, value)) for name, value in limits.items()]),
        screen.rows(topic_settings.rows(topic_defaults)),
    )
    return both
