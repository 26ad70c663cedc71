"""The errors of topics as Spark tables, which Spark shows as the last line of its own."""

from zaichik.base.extras import getting
from zaichik.cli.errors.section import Section

_TABLES, _LIVE = "use/statistics.md#topics-as-spark-tables", "use/statistics.md#numbers-of-a-stream"

SPARK_SIDE = (
    Section(
        code="BAD_OPTION",
        title="an option of the table can't be used",
        what="An option of .option(...) has a value that can't be used, contradicts another one, "
        "or holds a secret.",
        why="Spark passes on any option. One that was ignored would look as if it had been obeyed, "
        "and options are "
        "shown in plans and on web pages.",
        rules="",
        then="Change the option that the message names; the table of options says what each may "
        "be. Instead of a login "
        "in an option: tokenFile, or `zaichik login` on the machine that reads.",
        page=_TABLES,
    ),
    Section(
        code="UNKNOWN_COLUMN",
        title="a topic has no such column",
        what="The schema of a read has a column that topics don't have, has one twice, or with "
        "another type.",
        why="A topic's columns are fixed. A missing one filled with nulls would hide a spelling "
        "mistake.",
        rules="",
        then="Leave the schema out, and `.select` the columns you want; what is inside a payload "
        "is for from_json.",
        page=_TABLES,
    ),
    Section(
        code="CANNOT_READ",
        title="part of the topic is gone",
        what="Messages that the table should have were gone before they could be read. Or a "
        "table's deletions were, or it is published to faster than it can be read.",
        why="A table with a hole would look complete.",
        rules="LAG-1 RET-4 TAB-5",
        then="`zaichik describe TOPIC` shows what there is. If messages were gone: keep them "
        "longer (--retention, --capacity, --tombstones) or accept the hole with onLag=skip.",
        page=_TABLES,
    ),
    Section(
        code="TOPIC_IS_GONE",
        title="the topic isn't there, or is another one",
        what="The topic doesn't exist, or is another one of that name than the one that was read "
        "before.",
        why="Offsets begin again at 0 in another topic, and a table with rows of two topics would "
        "look like one.",
        rules="TOP-5",
        then="`zaichik topics` lists the broker's topics. If it is another topic: begin with a new "
        "checkpoint. Of a pattern, topics that go may be left out: onLag=skip.",
        page="use/statistics.md#topics-that-come-and-go",
    ),
    Section(
        code="CANNOT_WRITE",
        title="the table doesn't have the form of messages",
        what="The table to write has other columns than messages have, a payload or topic that is "
        "null, or an empty "
        "key. Or the mode isn't append.",
        why="What is stored in a topic stays as it is, so a row that isn't a message is refused "
        "before it is sent.",
        rules="",
        then='`.select("key", "payload")`, with `.cast("binary")` or strings; make empty keys '
        "null; write with "
        '`.mode("append")`. Other rows may have been stored already; the option exactlyOnce is '
        "about repeating a "
        "write.",
        page=_TABLES,
    ),
    Section(
        code="NAME_TAKEN",
        title="another query has taken over the name",
        what="Two streaming queries have the same option name for one topic. The newer one has it "
        "now.",
        why="A name is one position. The two would move it back and forth, and messages that one "
        "still needs could go.",
        rules="CMT-3",
        then="Give each query a name of its own. What this one has processed is in its checkpoint, "
        "so it may begin "
        "again.",
        page=_TABLES,
    ),
    Section(
        code="CANNOT_NAME",
        title="Spark's option can't name the topic",
        what="The topic's name has a comma, or blanks at its ends, and Spark's option has commas "
        "between names.",
        why="The name would be read as two.",
        rules="",
        then="Count without --master, or record the topic first: `zaichik record TOPIC`, then "
        "`zaichik stats "
        "recording`.",
        page="use/statistics.md",
    ),
    Section(
        code="NO_FILE_SYSTEM",
        title="the session can't reach Spark's file systems",
        what="A live query keeps its state in Spark's file systems, and a session of Spark Connect "
        "has no way there.",
        why="Without its state, a query that is started again would count from the beginning.",
        rules="",
        then="Start the query where Spark's driver runs, with `zaichik.spark.session()`.",
        page=_LIVE,
    ),
    Section(
        code="OTHER_WINDOWS",
        title="the folder has sums of other windows",
        what="The folder of a live query was begun with other windows than those asked for now.",
        why="The sums of one window say nothing about another one: messages that were counted are "
        "not read again.",
        rules="",
        then="Take another folder for the new windows, or ask for the old ones.",
        page=_LIVE,
    ),
    Section(
        code="NO_JAVA",
        title="Spark needs a Java, and none was found",
        what="There is no Java here that is new enough for Spark.",
        why="Spark runs on Java. zaichik itself doesn't, and `zaichik stats` counts without it.",
        rules="",
        then="Get one in a wheel: "
        + getting("java")
        + ". Or install one and set JAVA_HOME. Or leave out --master.",
        page="use/statistics.md#when-spark-pays",
    ),
    Section(
        code="WRONG_PYTHON",
        title="Spark's workers run another Python",
        what="The Python that Spark starts for its workers can't import zaichik.",
        why="The workers read the topics, so they need the package as the program does.",
        rules="",
        then="Set PYSPARK_PYTHON to the program's own Python (`python -c 'import sys; "
        "print(sys.executable)'`) before "
        "the session starts, or let `zaichik.spark.session()` start it.",
        page=_TABLES,
    ),
)
