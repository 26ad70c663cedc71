"""Bugs in what clients are told of topics, and in how long new topics wait for them.

They are slips as those in `planted_slips.py`, in a table of their own.
"""

from planted_slips import Slip

TABLE = "core/following/test_topics_table.py"
FOLLOWING = "core/following/test_following.py"
FILTERED = "core/following/test_filtered_reader.py"

FOLLOWING_SLIPS = [
    # -- what the records tell ---------------------------------------------------------------------
    Slip(
        "journals are announced",
        "Following.begin",
        "[it for it in topics if not is_own(it.name)]",
        "list(topics)",
        TABLE,
    ),
    Slip(
        "a topic that is made again looks as if it had never gone",
        "TopicsTable.came",
        "earlier.topics + 1",
        "earlier.topics",
        TABLE,
    ),
    Slip(
        "a count seems to begin with the topic before",
        "TopicsTable.came",
        "earlier.first_epoch or before.epoch",
        "before.epoch",
        TABLE,
    ),
    Slip(
        "a topic that was made again is forgotten with the one before it",
        "TopicsTable.came",
        "self._gone.pop(self.kept.offset_of(name), None)",
        "self._gone.get(self.kept.offset_of(name), None)",
        TABLE,
    ),
    Slip(
        "the count of a name that is forgotten goes on",
        "TopicsTable._forget_oldest",
        "self._earlier.pop(gone.name, None)",
        "pass",
        TABLE,
    ),
    Slip(
        "one record too many of topics that have gone is kept",
        "TopicsTable.went",
        "len(self._gone) >= self._most_gone",
        "len(self._gone) > self._most_gone",
        TABLE,
    ),
    Slip(
        "the newest record goes when its time is over",
        "TopicsTable.sweep",
        "oldest == newest or now_us < self._gone[oldest].until_us",
        "now_us < self._gone[oldest].until_us",
        TABLE,
    ),
    Slip(
        "times go back when a topic goes at an unknown one",
        "TopicsTable._note_time",
        "self._latest_us = max(self._latest_us, now_us)",
        "self._latest_us = now_us",
        TABLE,
    ),
    Slip(
        "nobody is told that a record has gone",
        "KeepLast._drop",
        "self.deleted_below = max(self.deleted_below, offset + 1)",
        "pass",
        TABLE,
    ),
    Slip(
        "a topic that is deleted is not told of",
        "TopicRegistry._remove",
        "self._following.went(topic, now_us)",
        "pass",
        TABLE,
    ),
    Slip(
        "what is known besides the records is not charged",
        "TopicsTable._memory",
        "super()._memory() + KNOWN_COST * (len(self._gone) + len(self._earlier))",
        "super()._memory()",
        TABLE,
    ),
    # -- when it is there, and how long new topics wait --------------------------------------------
    Slip(
        "the table of topics counts as one",
        "TopicRegistry._follow",
        "self._quota.take(topic.client, -1)",
        "pass",
        FOLLOWING,
    ),
    Slip(
        "an old epoch of the table is no name of a topic",
        "TopicRegistry.get",
        "name != TOPICS",
        "True",
        FOLLOWING,
    ),
    Slip(
        "a new topic waits for nobody",
        "Following.came",
        "self._is_followed(now_us)",
        "True",
        FOLLOWING,
    ),
    Slip(
        "a new topic waits no longer than others",
        "InMemory.sweep",
        "topic.settings.retention_ttl_ms == 0 and now_us >= topic.held_until_us",
        "topic.settings.retention_ttl_ms == 0",
        FOLLOWING,
    ),
    Slip(
        "a follower that is on its way back is not waited for",
        "Following._is_followed",
        "now_us - self._followed_us < HELD_US",
        "False",
        FOLLOWING,
    ),
    Slip(
        "a follower that has to begin again is not waited for",
        "Following.end",
        "self._followed_us = NOT_YET_US",
        "pass",
        FOLLOWING,
    ),
    Slip(
        "a follower that had to begin again is waited for without end",
        "Following.sweep",
        "has_readers or self._followed_us == NOT_YET_US",
        "has_readers",
        FOLLOWING,
    ),
    # -- what a user is told -----------------------------------------------------------------------
    Slip(
        "a frame has records that the user may not read",
        "FilteredReader._read",
        "len(shown) == batch.count",
        "True",
        FILTERED,
    ),
    Slip(
        "a frame begins with a record that the user may not read",
        "FilteredReader._readable_from",
        "not self.is_hidden(offset)",
        "True",
        FILTERED,
    ),
    Slip(
        "all hidden records are passed in one turn",
        "FilteredReader._readable_from",
        "self._left -= 1",
        "pass",
        FILTERED,
    ),
    Slip(
        "what comes after many hidden records waits for an event",
        "FilteredReader.take",
        "self.is_ready = True",
        "pass",
        FILTERED,
    ),
    Slip(
        "a change of rights leaves followers where they are",
        "Broker.waive",
        "self.registry.stop_following()",
        "pass",
        FILTERED,
    ),
    Slip(
        "only those with a right to its name may follow",
        "rights:check",
        'action == "subscribe" and name == TOPICS',
        "False",
        FILTERED,
    ),
    Slip(
        "the right to follow includes that to a journal of such a name",
        "rights:check",
        'action == "subscribe" and name == TOPICS',
        'action == "subscribe" and topic_of(name) == TOPICS',
        FILTERED,
    ),
]
