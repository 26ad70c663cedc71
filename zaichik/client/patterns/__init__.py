"""Patterns: one subscription to all topics of a kind, those that come later included.

The broker knows no patterns. It keeps a table of its topics, `$topics`, and the client subscribes
to each topic whose name matches. The files, from what a program iterates over down to the broker:

| file | idea |
| --- | --- |
| `subscription` | what a program iterates over |
| `in_hand` | what it works on: the frame in hand, and what comes after it |
| `turns`, `news` | the topics that have something take turns |
| `events` | what is reported of topics, in words |
| `follower` | reads `$topics`, and subscribes to what matches |
| `records` | what came and went between two records of a topic |
| `pattern` | which names match |
| `topic_name` | the name in a message, which knows its epoch |
| `member` | one topic that is read, or is about to be |
| `connection_pool` | as many connections as the topics need |
| `credit` | one credit for all of them |
"""
