"""Compaction statistics: what a topic's window has done, and what another one would do.

Without Spark.

Reading order: `events` (what statistics are made of), `chain` (the rule, for whole tables), `tally`
(all numbers of a topic), `partitions` (a topic of any size in bounded memory), `sources`
(recordings and brokers), `counting` (from a source to its statistics), `truth` (what is unknown,
and so not claimed), `advice`, `plots` and `report`. The same numbers from a cluster, or from a
stream: `zaichik.spark`. What they mean: `docs/use/statistics.md`.

Needs the extra `stats`.
"""
