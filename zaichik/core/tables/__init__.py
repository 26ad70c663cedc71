"""Tables: topics that keep the last message of each key (TAB).

`table` is what such a topic retains, with its limits; `keep_last` has the messages, and `key_index`
says where the newest of each key is.
"""
