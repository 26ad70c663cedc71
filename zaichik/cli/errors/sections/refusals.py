"""The errors with which a broker refuses one request whole, and the connection goes on."""

from zaichik.cli.errors.section import Section
from zaichik_protocol import ErrorCode as Code

REFUSALS = (
    Section(
        code=Code.INVALID_FIELD,
        title="a value is outside its range",
        what="One field of the request can't have this value; the error's `field` names it, and "
        "the message says what "
        "is allowed. Usual ones: a topic's name that is empty, longer than 200 bytes or begins "
        "with $; a key above "
        "1,024 bytes; a batch number that was answered too long ago.",
        why="A value that means nothing is refused before anything is done with it, so a mistake "
        "shows where it was "
        "made.",
        rules="ERR TOP-4 PUB-4",
        then="Change the field that the message names. In Python: `except zaichik.InvalidField as "
        "error`, and look at "
        "`error.field`. Repeating the request as it is fails again.",
        chapter_number=3,
        page="run/reliability.md#bad-input",
    ),
    Section(
        code=Code.UNSUPPORTED,
        title="the broker doesn't know this request or option",
        what="The request's type, a flag or a setting is unknown to this broker, or is not "
        "available in it: a durable "
        "topic without a folder for logs, a journal of a durable topic, a second Hello.",
        why="Ignoring what isn't understood would look like success. So the broker says no, and "
        "names the field.",
        rules="ERR DUR-1",
        then="Read the message. If it asks for a folder: `zaichik serve --data DIR`. Else compare "
        "`zaichik --version` "
        "with the broker's, the first line of `zaichik describe`. With a broker of your own, this "
        "is the request to "
        "build next: `zaichik learn watch`.",
        chapter_number=3,
        page="run/reliability.md#bad-input",
    ),
    Section(
        code=Code.NO_SUCH_TOPIC,
        title="there is no such topic, and none was created",
        what="The topic doesn't exist. Publishing and subscribing usually create it, but this "
        "broker was started with "
        "--no-auto-create, or your user may not create topics. Deleting never creates one.",
        why="Creating topics on first use is convenient until a name is misspelt. The broker's "
        "operator decides.",
        rules="TOP-3 TOP-6 ACC-2",
        then="Check the spelling against `zaichik topics`. Create the topic explicitly: `zaichik "
        "create TOPIC`, or "
        "`await client.create_topic(TOPIC)`. If that is FORBIDDEN, ask the broker's operator.",
        chapter_number=7,
    ),
    Section(
        code=Code.TOPIC_EXISTS,
        title="the topic exists with other settings",
        what="You asked to create a topic with settings that the existing one doesn't have. The "
        "message lists each "
        "difference. The topic is unchanged.",
        why="Creating is the same as making sure that it's there, so the same settings succeed any "
        "number of times. "
        "Other settings can't be given to a topic that has messages and readers.",
        rules="TOP-2 TOP-3",
        then="Leave out the settings that you don't insist on: only those you name are compared. "
        "`zaichik describe "
        "TOPIC` shows what it has. To change them, take another name, or `zaichik delete TOPIC` "
        "with all its messages, "
        "and create it again.",
        chapter_number=7,
    ),
    Section(
        code=Code.TOO_MANY_TOPICS,
        title="the broker has no topic left for you",
        what="The broker has max_topics topics (10,000 by default, journals count), or you have "
        "created your share of "
        "what was left.",
        why="A topic costs memory even when it is empty. One client gets at most 32 of 33 parts, "
        "so that one that "
        "makes a topic for each message, say, leaves some to others.",
        rules="TOP-8 JRN-2",
        then="Put what you made topics for into the messages' keys. Remove what isn't needed: "
        "`zaichik topics`, "
        "`zaichik delete TOPIC`. A topic that first use created and nobody uses goes by itself "
        "after ten minutes. Or "
        "`zaichik serve --limit max_topics=50000`.",
        page="run/reliability.md#limits",
    ),
    Section(
        code=Code.TOO_MANY_SUBSCRIPTIONS,
        title="no subscription, or no name, is left",
        what="The connection has max_subscriptions (1,000); or, if `field` is name, the broker "
        "keeps max_sessions "
        "named positions (10,000), or you have your share of them.",
        why="Each subscription and each remembered position is memory of the broker. A name counts "
        "also while its "
        "reader is away: in memory for a minute, in a durable topic for a week. A shared name "
        "counts until it is forgotten.",
        rules="CMT-3 TOP-8 DUR-5 SHR-9",
        then="End subscriptions that you no longer read, by leaving their `async with` block. "
        "Don't make a new name "
        "for each run; drop those that won't return: `zaichik subscribe TOPIC --name NAME "
        "--forget`, or `await "
        "subscription.forget()`. Of your shared names, the message says which has been without "
        "workers for longest: "
        "if nobody will come for its jobs, `zaichik dead TOPIC --name NAME --forget-name` drops it "
        "with them. Or raise the limit: `zaichik serve --limit max_subscriptions=5000`.",
        chapter_number=8,
        page="run/reliability.md#named-subscriptions",
    ),
    Section(
        code=Code.NO_SUCH_SUBSCRIPTION,
        title="there is no such subscription",
        what="A commit or an Unsubscribe named a subscription that has ended, or never was, on "
        "this connection. Or "
        "`zaichik explain --subscription` named one that the topic doesn't have, or that belongs "
        "to another user.",
        why="A subscription belongs to its connection, and its number means nothing anywhere else.",
        rules="UNS-2 EXP-5",
        then="Don't commit after `forget()`, or after the `async with` block has ended. In a "
        "client of your own, "
        "subscribe again after a reconnect before you commit. `zaichik describe TOPIC` shows the "
        "names and numbers "
        "that `zaichik explain` knows.",
        chapter_number=8,
    ),
    Section(
        code=Code.NOT_IN_FLIGHT,
        title="a commit beyond what was delivered",
        what="The commit settles an offset that this subscription hasn't been sent yet.",
        why="A commit means that everything below is done with. For a message that you haven't "
        "seen, that can't be "
        "true, and believing it would lose messages after a restart.",
        rules="CMT-2",
        then="Commit only messages that you got from this subscription: `await "
        "subscription.commit(message)`, or `subscription.commit(message.offset)`, not the offset "
        "after it. In a "
        "client of your own, `next` is one more than the last offset you handled. After a "
        "reconnect, wait until the "
        "message was delivered again.",
        chapter_number=9,
    ),
    Section(
        code=Code.OFFSET_AHEAD,
        title="a start beyond the end of the topic",
        what="You asked to start at an offset that the topic hasn't reached. Usually it was saved "
        "from another topic "
        "of that name: one that was deleted, or lost when the broker was restarted.",
        why="Waiting for that offset would skip everything before it, in silence. Starting "
        "anywhere else isn't what "
        "you asked for.",
        rules="RET-4 TOP-5",
        then="`zaichik describe TOPIC` shows which offsets there are. Save the topic's epoch with "
        "each offset and give "
        "both, `subscribe(TOPIC, start=offset, epoch=epoch)`: then another topic is noticed as "
        "EPOCH_CHANGED. Or start "
        'with "earliest" or "latest".',
        chapter_number=10,
    ),
    Section(
        code=Code.EPOCH_CHANGED,
        title="it is another topic of the same name",
        what="The topic isn't the one whose epoch you named. That one was deleted; or it was in "
        "memory, and the broker "
        "was restarted.",
        why="Offsets start at 0 in each topic. Offset 41 of the new one is another message than 41 "
        "of the old one, and "
        "nothing would show it.",
        rules="TOP-5 DUR-8",
        then="Forget the offsets you have saved, and subscribe again without an epoch, with "
        'start="earliest". What the '
        "old topic had is gone: publish again what is still needed (`client.lost_topics` says "
        "which topics it "
        "concerns). To keep a topic over restarts: `zaichik create TOPIC --durable`.",
        chapter_number=10,
        page="run/durability.md",
    ),
    Section(
        code=Code.FORBIDDEN,
        title="your user may not do this",
        what="The broker has rules, and by these rules the user may not do this with this topic. "
        "The message names the "
        "user and the right.",
        why="The first rule that matches decides, and without one the answer is no. It is decided "
        "before anything is "
        "looked up, so it doesn't tell whether the topic exists.",
        rules="ACC-2",
        then="On the broker's machine, `zaichik access check DIR USER ACTION TOPIC` names the line "
        "that decides. Add a "
        "line such as `allow publish TOPIC` below `user NAME` in DIR/rules; the broker reads it "
        "after `kill -HUP PID`.",
        page="run/security.md#who-may-do-what",
    ),
    Section(
        code=Code.NO_MEMORY,
        title="the broker may not hold that much more",
        what="Carrying this out needs memory that a limit doesn't allow: lossless topics have "
        "reserved their half of "
        "max_bytes; or your share of max_client_bytes or of max_producers is used up; or too much "
        "waits for a slow "
        "disk. The message says which.",
        why="Everything that clients make the broker hold is bounded, and shared. Otherwise the "
        "machine would run out "
        "of memory, and take every topic with it.",
        rules="RET-9 LAG-6 PUB-4 DUR-4",
        then="Creating a lossless topic: ask for a smaller --max-bytes or --capacity, or delete "
        "one. Publishing: keep "
        "a few programs connected instead of many that come and go; our client retries. "
        "Subscribing: leave "
        "subscriptions and names that aren't needed. Or `zaichik serve --limit max_bytes=2GiB`.",
        page="run/reliability.md#when-something-is-refused",
    ),
    Section(
        code=Code.NOT_EMPTY,
        title="what was to be deleted is in use",
        what="A delete with the condition that the topic is empty found messages, readers or named "
        "positions. Or a shared name was to be forgotten, and has workers.",
        why="Deleting can't be undone. The condition is there to keep you from deleting what "
        "somebody needs.",
        rules="TOP-6 SHR-9",
        then="`zaichik describe TOPIC` shows what it has, and who reads it. To delete it with all "
        "of that, leave out "
        "the condition: `zaichik delete TOPIC` without --if-empty. Of a shared name, end the "
        "workers first.",
    ),
    Section(
        code=Code.NO_SUCH_NAME,
        title="the topic has no shared name like this",
        what="Dead messages were to be listed, revived or forgotten, and no worker has ever had "
        "this name, it was forgotten, or it is not a shared one.",
        why="Looking makes no names: one that was misspelt would keep messages for ever.",
        rules="SHR-11",
        then="`zaichik describe TOPIC` lists the names. A shared name is private to its user: to "
        "look at another user's, name the user: `zaichik dead TOPIC --name NAME --user USER`.",
    ),
    Section(
        code=Code.TAKEN_OVER,
        title="the subscription's name belongs to another",
        what="The client asked for a name that another reader has taken over, or sent an older "
        "attempt to get it "
        "again. It happens after a reconnect, or to a program that was stopped for a while.",
        why="A name has one reader. If two took it from each other in turns, both would handle the "
        "same messages.",
        rules="CMT-3",
        then="Look for a second program with that name: `zaichik describe TOPIC` shows the client "
        "of each "
        "subscription. If this is the one that should read, subscribe again; else let it end. Two "
        "that should both "
        "read everything need two names.",
        page="run/reliability.md#named-subscriptions",
    ),
)
