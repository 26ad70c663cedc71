"""zaichik and Spark, under its public name; see `zaichik.apps.spark`."""

from zaichik.apps.spark import register, session

__all__ = ["register", "session"]
