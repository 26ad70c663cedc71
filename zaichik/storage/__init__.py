"""Durable topics: each has a log on disk, whose end is the ring in memory.

The files, from what the core calls down to the bytes:

| file | idea |
| --- | --- |
| `store` | the folder of all durable topics, and who may use it |
| `topic_log` | one topic's log, as the core sees it: synchronous, and never waiting |
| `work`, `resources` | what all logs share: the queue of disk work, budgets, a cache |
| `writer`, `reading` | what a thread does: write and sync a group of records, read a chunk |
| `state` | what a topic remembers besides its messages: a fold over the records |
| `segment`, `record` | a file of the log, and an entry of it, as bytes |
| `walk`, `recovery`, `restoring` | at a start: records, what they prove, and the topics again |
| `disk`, `file_systems` | the system calls, and where not to trust them |
| `cleaning/` | of tables: files rewritten without what was superseded |
| `repair/` | what `zaichik check` finds and mends |

This is the walk of one durable publish, after the topic has accepted it:

1. `Durable.publish` (in `zaichik.core`) gives the batch offsets and puts it into the topic's queue.
   The reply waits.
2. `TopicLog.write` notes in `DiskWork` that this log has something to write.
3. In the next iteration of the event loop, `DiskThreads` (in `zaichik.server`) asks
   `TopicLog.gather` for a group, all that is queued by then, and puts it into the queue of an idle
   thread. There `Writer.write` appends it to the segment and syncs it.
4. The thread has the event loop call `DiskThreads` again: `Durable.on_synced` gives the replies,
   and the topic appends the batches to its ring, where readers find them. The turns that send all
   this follow at once, for one slice of time.

At a start, `Store.open` locks the folder, and `recovery.recover` reads each log: first the latest
checkpoint, then the records after it. `restoring.restore` makes the topics again from that, with
their named positions, producers and windows; messages stay on the disk until somebody reads them.

`docs/run/durability.md` says what all of this promises.
"""
