"""What the policy that ran has done: the broker's own decisions, counted.

Nothing is recomputed here: `status` and `winner` of each event are what the broker decided and
wrote down. The totals of a topic are therefore the counters that `zaichik describe` shows, for as
long as the journal reaches back.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from zaichik.apps.statistics.events import COMPACTED, STORED

HOUR_US = 3_600_000_000


def outcomes(events: DataFrame) -> DataFrame:
    """Returns the events with a column `differs`: dropped, and unlike the winner's payload.

    Null if it was dropped and its winner is not among the events.
    """
    won = events.where(fn.col("status") == STORED).select(
        "topic", "epoch", fn.col("offset").alias("sought"), fn.col("hash").alias("winner_hash")
    )
    # What was stored seeks no winner. A null would say so, but all nulls meet in one task, and that
    # is most messages.
    sought = fn.coalesce(fn.col("winner"), -1 - fn.col("position"))
    dropped = fn.col("status") == COMPACTED
    differs = fn.when(dropped, fn.col("hash") != fn.col("winner_hash")).otherwise(fn.lit(False))
    joined = events.withColumn("sought", sought).join(won, ["topic", "epoch", "sought"], "left")
    return joined.withColumn("differs", differs).drop("sought", "winner_hash")


def account(events: DataFrame, *by: str) -> DataFrame:
    """Counts for each topic, and for each value of what else is named.

    Columns: `published = stored + compacted` and the same in bytes of payloads; `ratio`, the part
    stored; `windows` opened, `per_window` messages in one of them, both counted over messages with
    a key (`keyed`); `differing`, dropped though their payload was not the winner's; `unknown`,
    dropped by a winner that is not among the events; `superseded`, those that newer messages of a
    table have superseded.

    Args:
        events: see `EVENTS`.
        by: any of "key" and "hour", a timestamp.
    """
    keyed = fn.col("key").isNotNull()
    stored = fn.col("status") == STORED
    hour = fn.timestamp_seconds(fn.expr(f"accepted_us div {HOUR_US} * 3600"))
    # A message with a key that was stored has opened a window.
    opened = fn.count_if(stored & keyed)
    ratio = fn.count_if(stored) / fn.count("*")
    per_window = fn.try_divide(fn.count_if(keyed), opened)
    differs = fn.col("differs")
    columns = {
        "published": fn.count("*"),
        "stored": fn.count_if(stored),
        "compacted": fn.count_if(~stored),
        "bytes": fn.sum("size"),
        "stored_bytes": _sum_if(stored, "size"),
        "compacted_bytes": _sum_if(~stored, "size"),
        "ratio": ratio,
        "windows": opened,
        "keyed": fn.count_if(keyed),
        "per_window": per_window,
        "differing": fn.count_if(differs),
        "unknown": fn.count_if(differs.isNull()),
        "superseded": fn.count("superseded"),
    }
    named = [column.alias(name) for name, column in columns.items()]
    groups = outcomes(events).withColumn("hour", hour).groupBy("topic", *by)
    return groups.agg(*named)


def hot_keys(events: DataFrame, most: int = 10) -> DataFrame:
    """Returns each topic's keys with the most messages: as `account`, and their `share`."""
    hottest = Window.partitionBy("topic").orderBy(fn.desc("published"), "key")
    of_keys = account(events.where("key IS NOT NULL"), "key")
    ranked = of_keys.withColumn("rank", fn.row_number().over(hottest))
    hot = ranked.where(fn.col("rank") <= most)
    whole = events.groupBy("topic").agg(fn.count("*").alias("of_topic"))
    share = fn.col("published") / fn.col("of_topic")
    shares = hot.join(whole, "topic").withColumn("share", share)
    return shares.orderBy("topic", "rank").drop("of_topic", "rank")


def spans(events: DataFrame) -> DataFrame:
    """Where the messages of each topic and epoch lie, which shows how many are missing.

    Columns: topic, epoch, first, last (positions), count, first_us, last_us.
    """
    return events.groupBy("topic", "epoch").agg(
        fn.min("position").alias("first"),
        fn.max("position").alias("last"),
        fn.count("*").alias("count"),
        fn.min("accepted_us").alias("first_us"),
        fn.max("accepted_us").alias("last_us"),
    )


def messages_per_window(events: DataFrame) -> DataFrame:
    """How many windows had how many messages: the columns topic, messages, windows."""
    # What was stored is the winner of its own window.
    winner = fn.coalesce("winner", "offset")
    of_window = events.where("key IS NOT NULL").groupBy("topic", "epoch", winner.alias("window"))
    sizes = of_window.agg(fn.count("*").alias("messages"))
    return sizes.groupBy("topic", "messages").agg(fn.count("*").alias("windows"))


def _sum_if(condition: Column, name: str) -> Column:
    return fn.sum(fn.when(condition, fn.col(name)).otherwise(0))
