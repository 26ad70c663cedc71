"""The errors with which a broker refuses a batch: nothing is stored, the connection goes on."""

from zaichik.cli.errors.section import Section
from zaichik_protocol import ErrorCode as Code

PUBLISHING = (
    Section(
        code=Code.MESSAGE_TOO_LARGE,
        title="one message is larger than allowed",
        what="Key and payload together have more bytes than the broker's max_message (1 MiB by "
        "default).",
        why="One message is held whole in memory, and is sent whole: a very large one would hold "
        "up everything after "
        "it.",
        rules="ERR",
        then="Put large things where files belong, and publish their address. Or raise both "
        "limits, as a frame must "
        "carry the message: `zaichik serve --limit max_message=4MiB --limit max_frame=5MiB`. In "
        "Python, "
        "`client.welcome.max_message` is the limit.",
        chapter_number=6,
        page="run/reliability.md#limits",
    ),
    Section(
        code=Code.BATCH_TOO_LARGE,
        title="the batch doesn't fit",
        what="The batch has more messages than max_batch (8,192) or more bytes than max_message; "
        "or more than the "
        "topic's whole ring holds (its capacity and max_bytes).",
        why="A batch is stored as a whole or not at all. One that is larger than the ring would "
        "evict its own "
        "beginning.",
        rules="RET-6 RET-10",
        then="Send it in pieces. `async with client.producer(TOPIC) as producer`, then `await "
        "producer.send(payload)`, "
        "does that by itself, and `zaichik publish` uses it. For a small ring: `zaichik create "
        "TOPIC --capacity "
        "100000`.",
        chapter_number=10,
    ),
    Section(
        code=Code.TOPIC_FULL,
        title="the topic is full of what a reader still needs",
        what="The topic was created with overflow=reject and its ring (or its log) is full. "
        "Storing the batch would "
        "evict a message that a reader hasn't been sent, or that one with a name hasn't committed. "
        "Nothing was stored. "
        "The message names the reader that is furthest behind, or the offset that it needs. "
        "If the topic is a durable table, its log has reached log_bytes, and what was superseded "
        "is still being removed from it.",
        why="You asked for a topic that loses nothing, so publishers must wait for the slowest "
        "reader: back-pressure. A table waits for no reader, only for its disk.",
        rules="RET-9 DUR-4 DUR-10",
        then="Our client waits and retries by itself. If it waits for long, `zaichik describe "
        "TOPIC` shows what each "
        "reader is waiting for. Speed that reader up; if it won't come back, drop its position: "
        "`zaichik subscribe "
        "TOPIC --name NAME --forget`. A larger --capacity and --max-bytes, at the next create, "
        "only delays this.",
        chapter_number=12,
        page="run/reliability.md#lossless-topics",
    ),
    Section(
        code=Code.TABLE_FULL,
        title="the table would hold more than it may",
        what="After the batch, the table would hold more messages than its capacity, or more bytes "
        "than its max_bytes; or the broker has no memory left for a larger table. Nothing was "
        "stored. The message says which, and how many of its messages have no key.",
        why="A table never evicts: whoever came later would miss keys and could not know it. No "
        "reader can make room either, so waiting doesn't help.",
        rules="TAB-1",
        then="Delete keys: `zaichik publish TABLE --key KEY --tombstone`, or in Python `await "
        "client.publish(TABLE, None, key=KEY)`. Messages without a key are never replaced, and "
        "fill a table for good: give each a key. Or make another table with a larger --capacity "
        "and --max-bytes. Updates of keys that the table has still work, unless they are larger "
        "than what they replace.",
        page="use/tables.md#when-to-use-one",
    ),
    Section(
        code=Code.SEQUENCE_GAP,
        title="an earlier batch of this producer is missing",
        what="A batch came with a number beyond the next one that the broker expects from this "
        "producer.",
        why="Batches are stored in the order of their numbers. Storing this one first would let it "
        "overtake the one "
        "that is missing, and that one could never be stored after it. If all batches before it "
        "were answered, the topic has gone back to an earlier state: somebody has restored an "
        "older copy.",
        rules="PUB-4",
        then="Send all batches again from the number in the message on, in order. If your program "
        "numbers batches "
        "itself (`publish_batch(..., producer=, number=)`), wait for each result before the next, "
        "and count from 0. "
        "Leave the two out, and our client numbers them; after the restore of an older copy it "
        "goes on under a new producer id, and `client.lost_topics` says so.",
        chapter_number=13,
        page="run/reliability.md#safe-retries",
    ),
    Section(
        code=Code.PRODUCER_UNKNOWN,
        title="the broker has forgotten this producer",
        what="A batch with a number above 0 came from a producer that the broker doesn't know: it "
        "was silent for more "
        "than 10 minutes (producer_ttl), or the broker was restarted. Nothing was stored now; "
        "whether it was stored "
        "before is not known.",
        why="Without the producer's last answers, a retry can't be told from a new batch. Storing "
        "it on the chance "
        "would store some batches twice.",
        rules="PUB-4 TOP-5",
        then="Read the end of the topic to see whether the batch is there. If not, or if storing "
        "it twice does no "
        "harm, publish it again with a new producer id, numbered from 0. Our client does so by "
        "itself where it is "
        "certain that nothing was stored.",
        chapter_number=13,
        page="run/reliability.md#safe-retries",
    ),
    Section(
        code=Code.STORAGE_FULL,
        title="the disk has no room; nothing was stored",
        what="The batch is for a durable topic, and the disk is full (64 MiB stay free), a file "
        "has reached the limit of a file's size (ulimit -f), or all logs together have reached "
        "max_disk_bytes. The message says which.",
        why="A durable topic answers only when the disk has the messages. What can't be written is "
        "taken back as a "
        "whole, so that it may be retried.",
        rules="DUR-3 DUR-9",
        then="Make room: `zaichik delete TOPIC` for topics that aren't needed, or other files. Our "
        "client retries by "
        "itself and goes on when there is room; reading isn't affected. `zaichik create TOPIC "
        "--durable --log-bytes "
        "10GiB` bounds a topic from the start.",
        page="run/durability.md#operations",
    ),
    Section(
        code=Code.DAMAGED,
        title="what the disk has of the topic is damaged",
        what="At its start the broker found bytes in the topic's log whose checksum is wrong, "
        "though they were synced. "
        "The topic can be read up to there, and takes no messages. Or a file of the topic may not "
        "be opened: then the message says which, and whose it is. Or the topic's folder was "
        "renamed.",
        why="What comes after the damage is unknown, so a new message can't get an offset. Nothing "
        "is skipped in "
        "silence.",
        rules="DUR-7",
        then="If a file may not be opened, change its owner, and start the broker again. If the "
        "folder was renamed, stop the broker, rename it to what `zaichik check DIR` says, and "
        "start again. "
        "Otherwise stop the broker and copy the folder. `zaichik check DIR` says what is damaged; "
        "`zaichik check DIR "
        "--repair` gives up what can't be read, and the topic takes messages again. Or restore a "
        "copy. And mistrust "
        "the disk.",
        chapter_number=17,
        page="run/durability.md#what-a-start-finds",
    ),
)
