"""The errors that no frame carries: the client, recordings, statistics or Spark raise them."""

from zaichik.cli.errors.section import Section

CLIENT_SIDE = (
    Section(
        code="CONNECT_FAILED",
        title="no broker could be reached at the address",
        what="Nothing listens there, or it doesn't answer as a zaichik broker in time, or TLS "
        "failed, or your login "
        "would have been readable on the way. The message says which.",
        why="The first connection is tried once: a wrong address should show at once, not after a "
        "minute. A secret is "
        "sent only to a broker that has proven who it is, or to your own machine.",
        rules="ACC-1",
        then="If the connection was refused: start a broker with `zaichik serve`, or a "
        "cluster with `zaichik cluster serve`, and compare host "
        "and port with the "
        "line that it prints. If it took too long: a firewall is in the way, or the broker serves "
        "only its own machine "
        "(`zaichik serve --host`). If what answers isn't a zaichik broker, something else has the "
        "port (`ss -ltnp`). "
        "With TLS, use the whole login line, with its pin. With a broker of your own, `zaichik "
        "learn check` shows what "
        "is missing.",
        chapter_number=0,
        page="run/security.md#in-five-minutes",
    ),
    Section(
        code="CONNECTION_LOST",
        title="the connection was lost and not replaced",
        what="The connection broke while it was in use, or the broker owed an answer and was "
        "silent for 30 seconds. No "
        "new one could be made in time. Or the message says that what was received isn't zaichik's "
        "protocol: then the client has ended the connection, and tries no other. Whether an "
        "unanswered request was carried out is not known.",
        why="A lost request and a lost answer look the same from here. The client's retries are "
        "numbered, so they do "
        "no harm; but they end after `reconnect` seconds. A message out of its place could only "
        "be counted wrongly.",
        rules="PUB-4 TIM-3 CMT-3",
        then="See whether the broker runs: `zaichik describe`. The message has the reason as seen "
        "from here; the "
        "broker's log has the rest. With a broker of your own, look at its output first, then "
        "`zaichik learn check`. "
        "If it isn't zaichik's protocol: connect without the proxy or gateway that is in between; "
        "with zaichik's broker alone, report it. "
        "To wait longer: `zaichik.connect(..., reconnect=300)`, or `zaichik subscribe TOPIC "
        "--reconnect 5m`. After a "
        "publish, read the topic's end before you publish again. Read with a name, and you resume "
        "where you stopped.",
        chapter_number=13,
        page="run/reliability.md#safe-retries",
    ),
    Section(
        code="SUBSCRIPTION_LOST",
        title="the broker ended a subscription",
        what="The broker ended it for a reason that this version of the client doesn't know. "
        "Reasons that it knows "
        "have codes of their own, such as DELETED.",
        why="A subscription that ends in silence looks like a topic without news.",
        rules="CMT-4",
        then="Read the broker's words in the message, and compare `zaichik --version` on both "
        "sides. `zaichik describe "
        "TOPIC` shows whether the topic is still there.",
    ),
    Section(
        code="UNEXPECTED_REPLY",
        title="the reply isn't what was asked for",
        what="The broker answered a request with a frame that is neither its reply nor an Error. "
        "Or what it reports about itself isn't JSON, lacks a field, or has a value that can't be "
        "one: the message says which.",
        why="Replies come in the order of the requests and carry their ids. If they don't fit, "
        "nothing that follows "
        "can be trusted. A number that is none can't be counted with.",
        rules="ERR",
        then="With a broker of your own: check that each reply has the request's id, and its type "
        "with the top bit "
        "set; `zaichik learn check all` finds the place. If a field is missing, compare `zaichik "
        "--version` on both sides. With zaichik's, report it.",
        chapter_number=3,
    ),
    Section(
        code="CLUSTER_MAP_UNUSABLE",
        title="the map of the cluster can't be followed",
        what="The message in the topic `cluster` of a broker isn't a map that this version can "
        "read. Or it is the map of another cluster: it has another number of shards than the one "
        "that this client began with.",
        why="A topic's shard follows from its name and the number of shards. A client that guessed "
        "would look for topics, and make them, where they don't belong.",
        rules="",
        then="If the message says that the format is unknown: upgrade zaichik on this machine, to "
        "the version of the cluster's nodes. If the number of shards has changed: the cluster was "
        "set up anew, or the address is another cluster's now; connect again. If it isn't a map at "
        "all, somebody else publishes to `cluster`: `zaichik subscribe cluster --from earliest` "
        "shows what, and with access control only the cluster's node should have that right.",
        page="use/cluster.md",
    ),
    Section(
        code="TOPIC_SHRUNK",
        title="the topic is shorter than it was",
        what="The topic was to be read up to an offset that it had reached, and it ends before "
        "that now. Somebody has restored an older copy of the broker's folder; or the broker, or a "
        "proxy before it, has told a wrong end.",
        why="Waiting for that offset could take for ever, and would bring other messages than "
        "those that were there.",
        rules="RET-4",
        then="`zaichik describe TOPIC` shows where it ends now. If a copy was restored on purpose, "
        "run the command again: it reads what is there. Readers that save offsets have to go back, "
        "too.",
        page="run/durability.md",
    ),
    Section(
        code="NOT_LOSSLESS",
        title="the topic could lose messages before",
        what="What you publish, or read, is to be acknowledged by Kafka (`acked_by`), and the "
        "topic could lose messages before its bridge has copied them: it evicts them, or they "
        "expire, or it is a table. Nothing was stored.",
        why="A message that is gone before the bridge comes to it would never be acknowledged, "
        "or, worse, be taken for replicated.",
        rules="AK-1 RET-9",
        then="Create a topic that keeps everything until it is read: `zaichik create TOPIC "
        "--overflow reject --retention forever`, with `--durable` if the broker has a folder. The "
        "settings of a topic can't be changed, so an old one has to be deleted first, or take "
        "another name. Or publish without `acked_by`.",
        page="use/python.md#acknowledged-by-kafka",
    ),
    Section(
        code="REPLICATION_LOST",
        title="stored, and not known to be replicated",
        what="The broker has stored the message, and Kafka will not get it, or nobody can know "
        "whether it has. It was gone before the bridge could read it, or the topic was deleted or "
        "made anew, or the broker was restarted and has lost it.",
        why="The watermark that a bridge publishes has the topic's epoch and all gaps. What lies "
        "in a gap is not acknowledged because the watermark has passed it.",
        rules="AK-1 AK-2",
        then="Publish it again if it must be in Kafka; `error.topic` and `error.offset` say which "
        "one it was. `zaichik describe TOPIC` shows whether the topic is still lossless, and "
        "whether the bridge's name, `replica/kafka`, is there: without it the topic waits for "
        "nobody.",
        page="use/python.md#acknowledged-by-kafka",
    ),
    Section(
        code="NOT_AN_ADDRESS",
        title="the text isn't the address of a broker",
        what="It is not HOST:PORT, zaichik://HOST:PORT or "
        "zaichiks://TOKEN@HOST:PORT?pin=sha256:HEX; or it has a "
        "secret in a place that others can read. Nothing was sent.",
        why="Guessing what an address might mean could send your login to somebody else.",
        rules="ACC-1",
        then="Write `--connect 127.0.0.1:8889`, IPv6 as `[::1]:8889`. Paste a line with a token "
        "into `zaichik login`, "
        "or set ZAICHIK_CONNECT: everybody on the machine can see arguments. If part of a token or "
        "pin is missing, "
        "copy the line again.",
        page="run/security.md#where-a-secret-goes-and-where-it-doesnt",
    ),
    Section(
        code="UNUSABLE_LOGIN",
        title="the file with the login can't be used",
        what="The file of `zaichik login`, ZAICHIK_TOKEN_FILE or ZAICHIK_PASSWORD_FILE can't be "
        "read, is damaged, or "
        "may be read by others. Nothing was sent.",
        why="A secret that others can read isn't a secret any more, so you are told before it is "
        "used.",
        rules="ACC-1",
        then="If others may read it: `chmod go= FILE`, and ask for a new token if somebody may "
        "have read it. If it is "
        "damaged: `zaichik login` again. `zaichik login --remove` goes back to no login.",
        page="run/security.md#where-a-secret-goes-and-where-it-doesnt",
    ),
    Section(
        code="CANNOT_RECORD",
        title="the recording can't be gone on with",
        what="Another program records the topic into the same folder or under the same name, a "
        "file there isn't part of a recording, the folder can't be written to, the name is ahead "
        "of the files, or these are ahead of the topic. Files that were complete are kept.",
        why="Two recorders of a folder would write messages twice. A file's name says which "
        "offsets it holds; the next run goes on after the last one. A name that is ahead means "
        "that messages are missing in the files. Files that are ahead are of a topic of which an "
        "older copy was restored: its next messages would be taken for recorded ones.",
        rules="CMT-3",
        then="End the other recorder, or take another place or name: `zaichik record TOPIC --into "
        "PLACE --name NAME`. Move away files that aren't named EPOCH-START-END.parquet. Make room, "
        "and start again: it continues where the files end.",
        page="use/archive.md#when-something-fails",
    ),
    Section(
        code="STORE_UNAVAILABLE",
        title="the object store doesn't answer as it should",
        what="The store can't be reached, is busy, or says that the credentials have expired. A "
        "recorder has tried for a minute.",
        why="What isn't in the store yet isn't committed: it is kept by the topic, as far as the "
        "topic keeps anything.",
        rules="CMT-3",
        then="Check the network, renew the credentials, and start again: the recorder goes on "
        "where the objects end.",
        page="use/archive.md#when-something-fails",
    ),
    Section(
        code="STORE_REFUSED",
        title="the object store refuses, and would again",
        what="There is no such bucket, the credentials are wrong or lack rights, the bucket is in "
        "another region, or this machine's clock is wrong.",
        why="Another attempt would end in the same way, so there is none.",
        rules="",
        then="The message says which it is, and what to change. Nothing was lost: start again.",
        page="use/archive.md#credentials-regions-endpoints",
    ),
    Section(
        code="NO_SUCH_RECORDED_TOPIC",
        title="the topic to record doesn't exist",
        what="The broker has no topic of that name, or doesn't show it to your user.",
        why="Recording creates no topic: a misspelt name would be recorded for ever, and stay "
        "empty.",
        rules="ACC-5 TOP-7",
        then="`zaichik topics` lists its topics. The journal of a topic is named '$journal/TOPIC', "
        "in quotes.",
        page="use/statistics.md",
    ),
)

STATISTICS = (
    Section(
        code="NOTHING_TO_READ",
        title="no recording or topic, or a damaged file",
        what="What you named is neither a recording's folder nor a topic, or one of its files "
        "can't be read.",
        why="Statistics of a part would look like statistics of the whole.",
        rules="",
        then="`zaichik topics` shows the broker's topics, and `zaichik record TOPIC --into FOLDER` "
        "makes a recording. "
        "Remove a damaged file: if it is the last one, `zaichik record` writes it again; if not, "
        "its messages are "
        "reported as missing.",
        page="use/statistics.md",
    ),
    Section(
        code="COUNTED_TWICE",
        title="a topic is named twice",
        what="The same topic is among the sources twice, perhaps once as a recording and once at "
        "the broker.",
        why="Each of its messages would count twice, and repeats are what the statistics are "
        "about.",
        rules="",
        then="Name each topic once, and choose one source for it: the recording has what the "
        "broker may have dropped.",
        page="use/statistics.md",
    ),
    Section(
        code="NO_JOURNAL",
        title="a payload is not a journal's record",
        what="A topic was read as a journal, and its payloads aren't the 40 bytes of a journal's "
        "record.",
        why="Only a journal says what became of each message. Other payloads would give numbers "
        "without a meaning.",
        rules="JRN-1",
        then="Name the topic itself, without $journal/ in front, or check that the recording is of "
        "'$journal/TOPIC'. A "
        "topic gets a journal with `zaichik create TOPIC --journal 64MiB`.",
        page="use/statistics.md",
    ),
)
