"""What the policy that ran has done, under its public name; see `zaichik.apps.spark.outcomes`."""

from zaichik.apps.spark.outcomes import account, hot_keys, messages_per_window, outcomes, spans

__all__ = ["account", "hot_keys", "messages_per_window", "outcomes", "spans"]
