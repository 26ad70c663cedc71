"""The log of a table: rewritten without what was superseded, and read back at a start (DUR-10).

| file | idea |
| --- | --- |
| `table_log` | a log that takes a step of rewriting between two groups of records |
| `choice` | which files are worth it |
| `rewriting` | several files made one, a piece at a time |
| `changes` | what goes with it of positions and shared names |
| `kept` | the records in it: messages with gaps between their offsets |
| `loading` | at a start: the table again, from all files |
"""
