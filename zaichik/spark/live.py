"""Statistics while messages come, under its public name; see `zaichik.apps.spark.live`."""

from zaichik.apps.spark.live import OtherWindows, sums, writer

__all__ = ["OtherWindows", "sums", "writer"]
