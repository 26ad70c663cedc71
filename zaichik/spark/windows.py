"""What other windows would do, under its public name; see `zaichik.apps.spark.windows`."""

from zaichik.apps.spark.windows import WINDOWS, by_key, summed, what_if

__all__ = ["WINDOWS", "by_key", "summed", "what_if"]
