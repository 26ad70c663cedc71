"""The same numbers as `windows`, as one query: the rule of compaction where it can be read.

For each key, its messages are gathered in a list and folded from the first to the last. The fold's
state is the window that is open: when it opened, what won, what was dropped since. This is the rule
itself, and SQL can say it, because `aggregate` is a loop. It is also slower than the walk in
`windows` (`python benchmarks/spark.py` measures by how much), a key's messages must fit into one
list, and for the winner `last` it holds the payloads' hashes of a whole window, which takes time
quadratic in their number. Tests compare the two.
"""

from collections.abc import Collection, Iterable
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from zaichik.apps.statistics.chain import SUMS, WINNERS, Window, Winner, length_us, policies

_HISTORY = """
SELECT topic, key IS NULL AS keyless, count(*) AS messages, sum(size) AS bytes,
       sort_array(collect_list(struct(position, accepted_us, hash, size))) AS history
FROM {events}
-- A message without a key has a history of its own.
GROUP BY topic, epoch, key, if(key IS NULL, position, NULL)
"""

# The first message of a window stays. `waiting` counts what was dropped since and differs; when the
# next window opens, its first message is what they were waiting for. Times are counted from where
# the window opened, so that their sum stays small.
_FIRST = """
aggregate(history,
  named_struct('opened_us', BIGINT(NULL), 'hash', 0L, 'waiting', 0L, 'since_us', 0L,
               'longest_us', 0L, 'kept', 0L, 'kept_bytes', 0L, 'differing', 0L,
               'delayed', 0L, 'delay_us', 0L, 'max_delay_us', 0L),
  (s, m) -> CASE
    WHEN s.opened_us IS NULL OR m.accepted_us - s.opened_us >= window_us THEN named_struct(
      'opened_us', m.accepted_us, 'hash', m.hash, 'waiting', 0L, 'since_us', 0L, 'longest_us', 0L,
      'kept', s.kept + 1, 'kept_bytes', s.kept_bytes + m.size, 'differing', s.differing,
      'delayed', s.delayed + s.waiting,
      'delay_us', s.delay_us + s.waiting * coalesce(m.accepted_us - s.opened_us, 0) - s.since_us,
      'max_delay_us', greatest(s.max_delay_us,
        if(s.waiting = 0, 0, m.accepted_us - s.opened_us - s.longest_us)))
    WHEN m.hash = s.hash THEN s
    ELSE named_struct(
      'opened_us', s.opened_us, 'hash', s.hash, 'waiting', s.waiting + 1,
      'since_us', s.since_us + m.accepted_us - s.opened_us,
      'longest_us', if(s.waiting = 0, m.accepted_us - s.opened_us, s.longest_us),
      'kept', s.kept, 'kept_bytes', s.kept_bytes, 'differing', s.differing + 1,
      'delayed', s.delayed, 'delay_us', s.delay_us, 'max_delay_us', s.max_delay_us)
  END,
  s -> struct(s.kept, s.kept_bytes, s.differing, s.delayed, s.delay_us,
              s.waiting AS unseen, s.max_delay_us))
"""

# The last message of a window stays, so what differs is known only when the window is over.
_LAST = """
aggregate(history,
  named_struct('opened_us', BIGINT(NULL), 'hashes', array(0L), 'size', 0L,
               'kept', 0L, 'kept_bytes', 0L, 'differing', 0L),
  (s, m) -> if(s.opened_us IS NULL OR m.accepted_us - s.opened_us >= window_us,
    named_struct('opened_us', m.accepted_us, 'hashes', array(m.hash), 'size', m.size,
                 'kept', s.kept + 1,
                 'kept_bytes', s.kept_bytes + s.size,
                 'differing',
                 s.differing + size(filter(s.hashes, h -> h != element_at(s.hashes, -1)))),
    named_struct('opened_us', s.opened_us, 'hashes', concat(s.hashes, array(m.hash)),
                 'size', m.size,
                 'kept', s.kept, 'kept_bytes', s.kept_bytes, 'differing', s.differing)),
  s -> struct(s.kept, s.kept_bytes + s.size AS kept_bytes,
              s.differing + size(filter(s.hashes, h -> h != element_at(s.hashes, -1))) AS differing,
              0L AS delayed, 0L AS delay_us, 0L AS unseen, 0L AS max_delay_us))
"""


# The newest message of a key stays, as in a table, unless it deletes the key.
_NEWEST = """
aggregate(history,
  named_struct('is_there', false, 'hash', 0L, 'size', 0L, 'differing', 0L),
  (s, m) -> named_struct(
    'is_there', keyless OR m.size > 0, 'hash', m.hash, 'size', m.size,
    'differing', s.differing + if(s.is_there AND m.hash != s.hash, 1L, 0L)),
  s -> struct(if(s.is_there, 1L, 0L) AS kept, if(s.is_there, s.size, 0L) AS kept_bytes, s.differing,
              0L AS delayed, 0L AS delay_us, 0L AS unseen, 0L AS max_delay_us))
"""
_FOLDS = {"first": _FIRST, "last": _LAST, "newest": _NEWEST}


def what_if(
    events: DataFrame, windows: Iterable[Window], winners: Collection[Winner] = WINNERS
) -> DataFrame:
    """For each topic, window and winner what `windows.what_if` returns, by a fold."""
    history = events.sparkSession.sql(_HISTORY, events=events)
    lengths_of: dict[Winner, list[int]] = {}
    for length, winner in policies(map(length_us, windows), winners):
        lengths_of.setdefault(winner, []).append(length)
    totals = [fn.sum(name).alias(name) for name in SUMS]
    totals.append(fn.max("max_delay_us").alias("max_delay_us"))
    parts = []
    for winner, lengths in lengths_of.items():
        each = fn.explode(fn.array(*(fn.lit(length).cast("long") for length in lengths)))
        history_of = history.withColumn("window_us", each).withColumns(
            {"winner": fn.lit(winner), "f": fn.expr(_FOLDS[winner])}
        )
        folded = history_of.select("topic", "window_us", "winner", "messages", "bytes", "f.*")
        parts.append(folded.groupBy("topic", "window_us", "winner").agg(*totals))
    whole = reduce(DataFrame.unionByName, parts)
    return whole.withColumn("ratio", fn.col("kept") / fn.col("messages"))
